"""Hugging Face weights from a model that DeepSpeed spread over processes, and checkpoints that say how it lay."""

from typing import Any

import torch
from transformers import AutoConfig, PretrainedConfig, PreTrainedModel
from transformers.trainer_utils import get_last_checkpoint
from trl import GRPOTrainer

from medgrpo.distributed.adapters import as_peft_model
from medgrpo.distributed.expert_parallel import Wishes, configure_experts, trains_aux_loss
from medgrpo.distributed.hf_folder import write_hf_folder
from medgrpo.distributed.placement import Placement, placement_of, refuse_other_placement, write_placement
from medgrpo.distributed.sharding import autoep_layers, is_zero3, whole
from medgrpo.trainers.config import MedGRPOConfig


class ExportingGRPOTrainer(GRPOTrainer):
    """TRL's `GRPOTrainer` under ZeRO-3 and expert parallelism, writing models that one process loads.

    DeepSpeed's config is completed for mixtures of experts, and what can't be trained is refused, before a model is
    built. Where ZeRO-3 spread the weights, `save_model` and each checkpoint hold them as `save_pretrained` would
    write them, every process its share, and with an adapter the adapter. Each checkpoint holds its placement, and is
    refused by a run that is placed otherwise.
    """

    def __init__(self, model: Any, reward_funcs: Any = None, args: Any = None, *rest: Any, **kwargs: Any) -> None:
        if isinstance(args, MedGRPOConfig):
            self._place(model, args, lora=kwargs.get("peft_config") is not None)
        super().__init__(model, reward_funcs, args, *rest, **kwargs)

    def _place(self, model: Any, args: MedGRPOConfig, lora: bool) -> None:
        config = _read_config(model, args)
        lora = lora or (isinstance(model, torch.nn.Module) and as_peft_model(model) is not None)
        deepspeed = args.deepspeed_plugin
        forced = lora and deepspeed is not None and deepspeed.zero_stage == 3  # by TRL
        reentrant = forced or bool((args.gradient_checkpointing_kwargs or {}).get("use_reentrant"))
        wishes = Wishes(
            num_processes=args.world_size,
            lora=lora,
            checkpoints=args.save_strategy != "no",
            aux_loss=trains_aux_loss(config, args.router_aux_loss_coef),
            reentrant=args.gradient_checkpointing and reentrant,
        )
        configure_experts(None if deepspeed is None else deepspeed.hf_ds_config.config, config, wishes)

    @property
    def placement(self) -> Placement:
        """How this run lies on its processes."""
        plugin = self.args.deepspeed_plugin
        return placement_of(self.args.world_size, None if plugin is None else plugin.hf_ds_config.config)

    def train(self, resume_from_checkpoint: str | bool | None = None, *rest: Any, **kwargs: Any) -> Any:
        """Train as TRL does; raises `MedgrpoError` for a checkpoint that was taken under another placement."""
        checkpoint = resume_from_checkpoint
        if checkpoint is True:
            checkpoint = get_last_checkpoint(self.args.output_dir)
        if checkpoint:
            refuse_other_placement(checkpoint, self.placement)
        return super().train(resume_from_checkpoint, *rest, **kwargs)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Write the model, or the adapter, as one process would; collective. Nothing is pushed (`HubGRPOTrainer`)."""
        model = self.accelerator.unwrap_model(self.model, keep_torch_compile=False)
        if not is_zero3(model) and not autoep_layers(model):
            super().save_model(output_dir, _internal_call)
            return
        folder = self.args.output_dir if output_dir is None else output_dir
        if as_peft_model(model) is None:
            write_hf_folder(model, folder, tokenizer=self.processing_class)
        else:
            self._save(folder, state_dict=_trained_weights(model))
        self.accelerator.wait_for_everyone()

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        if self.args.should_save:
            write_placement(output_dir, self.placement)


def _read_config(model: Any, args: MedGRPOConfig) -> PretrainedConfig:
    if isinstance(model, str):
        options = args.model_init_kwargs or {}
        return AutoConfig.from_pretrained(
            model, revision=options.get("revision"), trust_remote_code=options.get("trust_remote_code", False)
        )
    base: PreTrainedModel = model
    return base.config


def _trained_weights(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """What requires a gradient, on the CPU, one whole at a time: an adapter's own weights."""
    weights = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            with whole([parameter]):
                weights[name] = parameter.detach().to("cpu", copy=True)
    return weights
