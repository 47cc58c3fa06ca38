"""Rollouts by transformers that run each prompt once for all the completions that begin with it."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any

import torch
from accelerate.utils import is_peft_model
from transformers import Cache, DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer, LinearAttentionLayer
from transformers.utils import logging
from trl import GRPOTrainer

from medgrpo.trainers.shared_prefix.layout import number_prompts
from medgrpo.trainers.shared_prefix.models import BACKBONES

logger = logging.get_logger(__name__)

REPEATABLE = (DynamicLayer, DynamicSlidingWindowLayer, LinearAttentionLayer)


class SharedPrefillGRPOTrainer(GRPOTrainer):
    """TRL's `GRPOTrainer`; where transformers generates, a prompt is prefilled once and its cache repeated.

    The completions are the ordinary ones, sampled ones, too: every row takes the same draws. Off with
    `shared_prefix: false`; a server of rollouts shares prompts by itself. A model or a cache that was not tried is
    prefilled as ever.
    """

    def _generate_single_turn(
        self,
        prompt_ids: list[list[int]],
        images: Any,
        multimodal_fields: dict[str, Any],
        num_generations: int,
        has_tool_images: bool = False,
    ) -> tuple[list[list[int]], Any]:
        generate = super()._generate_single_turn
        given = (prompt_ids, images, multimodal_fields, num_generations, has_tool_images)
        if not self.args.shared_prefix or self.use_vllm or self.use_transformers_continuous_batching:
            return generate(*given)
        plain = self.accelerator.unwrap_model(self.model_wrapped)
        causal = plain.get_base_model() if is_peft_model(plain) else plain
        if multimodal_fields or type(causal) not in BACKBONES:
            return generate(*given)
        with prompts_prefilled_once(causal):
            return generate(*given)


@contextmanager
def prompts_prefilled_once(model: PreTrainedModel) -> Iterator[None]:
    """Within this, `model.generate` runs rows with the same prompt and padding once, up to their first new token.

    Then the cache and the logits are repeated, and decoding goes on row by row. Only for a `DynamicCache` of layers
    that can be repeated; with another one nothing changes.
    """
    stock = model._prefill

    def prefill(
        self: PreTrainedModel, input_ids: torch.Tensor, generation_config: Any, model_kwargs: dict, *args: Any, **kwargs
    ) -> Any:
        caches = [value for value in model_kwargs.values() if isinstance(value, Cache)]
        mask = model_kwargs.get("attention_mask")  # None where nothing is padded
        numbers = number_prompts(input_ids, torch.ones_like(input_ids) if mask is None else mask)
        different = int(numbers.max()) + 1
        if different == len(input_ids):
            return stock(input_ids, generation_config, model_kwargs, *args, **kwargs)
        if len(caches) != 1 or not _is_repeatable(caches[0]):
            kinds = ", ".join(type(cache).__name__ for cache in caches) or "no cache"
            logger.warning_once(f"shared_prefix: rollouts run each row's prompt: {kinds} can't be repeated")
            return stock(input_ids, generation_config, model_kwargs, *args, **kwargs)
        rows = torch.arange(len(input_ids), device=numbers.device)
        first = rows.new_full((different,), len(rows)).scatter_reduce(0, numbers, rows, "amin")
        few = {
            key: value[first] if isinstance(value, torch.Tensor) and value.shape[:1] == rows.shape else value
            for key, value in model_kwargs.items()
        }
        outputs = stock(input_ids[first], generation_config, few, *args, **kwargs)
        # Repeats as well as it reorders: each row takes the states of the row that it names.
        caches[0].reorder_cache(numbers)
        outputs.logits = outputs.logits[:, -1:].index_select(0, numbers.to(outputs.logits.device))
        return outputs

    model._prefill = MethodType(prefill, model)
    try:
        yield
    finally:
        del model._prefill


def _is_repeatable(cache: Cache) -> bool:
    return type(cache) is DynamicCache and all(type(layer) in REPEATABLE for layer in cache.layers)
