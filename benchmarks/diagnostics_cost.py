"""What the diagnostics cost of an update step: the same trainer with and without them, every other generation.

python benchmarks/diagnostics_cost.py                 # a dense model of 7 million parameters
python benchmarks/diagnostics_cost.py --experts 16    # the same with 16 experts, 4 to a token

Rollouts are scripted, so that no generation hides the cost. Each generation serves two updates; the diagnostics
are on for one generation and off for the next, so that whatever else the machine does falls on both alike. On a
CPU the processor time of the process is compared, on a GPU the wall time. Prints the medians and their ratio with
a 95 % bootstrap interval, and, where that interval is wide, the better measure: the time spent inside the
diagnostics' own functions (all but the hooks on routers).
"""

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import (
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
    TrainerCallback,
)

from medgrpo import MedGRPOConfig, MedGRPOTrainer
from medgrpo.trainers.diagnostics import Diagnostics

VOCABULARY = 2000
UPDATES_PER_GENERATION = 2


# What the diagnostics do; the rest of them hands over values.
MEASURED = ("read_answers", "add_rewards", "add_update", "before_log")


class Inside:
    """Adds up the time inside some methods of an object, while it is enabled."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self.seconds = 0.0
        for name in MEASURED:
            setattr(diagnostics, name, self._timed(diagnostics, getattr(diagnostics, name)))

    def _timed(self, diagnostics: Diagnostics, method: Callable[..., None]) -> Callable[..., None]:
        def timed(*args: Any) -> None:
            began = _clock()
            method(*args)
            if diagnostics.enabled:
                self.seconds += _clock() - began

        return timed


class Alternate(TrainerCallback):
    """Switches the diagnostics at each generation and keeps the time of each generation's updates."""

    def __init__(self) -> None:
        self.times: dict[bool, list[float]] = {True: [], False: []}
        self.trainer: MedGRPOTrainer | None = None
        self.began = 0.0

    def on_step_begin(self, args, state, control, **kwargs) -> None:
        """Close the generation before and begin the next one, at every second update."""
        if state.global_step % UPDATES_PER_GENERATION:
            return
        now = _clock()
        diagnostics = self.trainer._diagnostics
        if state.global_step >= 2 * UPDATES_PER_GENERATION:  # the first two warm up
            self.times[diagnostics.enabled].append(now - self.began)
        diagnostics.enabled = not diagnostics.enabled
        self.began = _clock()


def main() -> None:
    """Train, alternating, and say what the diagnostics cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generations", type=int, default=42, help="half of them with the diagnostics (42)")
    parser.add_argument("--completions", type=int, default=16, help="completions of an update (16)")
    parser.add_argument("--tokens", type=int, default=96, help="tokens of a completion (96)")
    parser.add_argument("--hidden", type=int, default=256, help="hidden size (256)")
    parser.add_argument("--layers", type=int, default=6, help="layers (6)")
    parser.add_argument("--experts", type=int, default=0, help="experts of each layer, 4 to a token; 0 = dense")
    options = parser.parse_args()
    tokenizer = _tokenizer()
    model = _model(options, tokenizer)
    alternate = Alternate()
    draw = random.Random(0)

    def rollouts(prompts, trainer):
        return {
            "prompt_ids": [tokenizer(prompt)["input_ids"] for prompt in prompts],
            "completion_ids": [draw.choices(range(2, VOCABULARY), k=options.tokens) for _ in prompts],
            "logprobs": None,
        }

    def first_reward(completions, **columns):
        return [draw.random() for _ in completions]

    def second_reward(completions, **columns):
        return [10 * draw.random() for _ in completions]

    with tempfile.TemporaryDirectory() as folder:
        trainer = MedGRPOTrainer(
            model=model,
            processing_class=tokenizer,
            reward_funcs=[first_reward, second_reward],
            rollout_func=rollouts,
            train_dataset=Dataset.from_dict({"prompt": ["w1 w2 w3 w4"] * 64, "answer": [[["a"]]] * 64}),
            callbacks=[alternate],
            args=MedGRPOConfig(
                output_dir=folder,
                per_device_train_batch_size=options.completions,
                num_generations=8,
                max_completion_length=options.tokens,
                steps_per_generation=UPDATES_PER_GENERATION,
                max_steps=UPDATES_PER_GENERATION * (options.generations + 3),
                beta=0.0,
                router_aux_loss_coef=0.0,
                learning_rate=1e-4,
                gradient_checkpointing=False,
                report_to="none",
                save_strategy="no",
                log_completions=False,
                disable_tqdm=True,
                logging_steps=UPDATES_PER_GENERATION,
            ),
        )
        alternate.trainer = trainer
        inside = Inside(trainer._diagnostics)
        trainer.train()

    size = sum(value.numel() for value in model.parameters()) / 1e6
    on, off = (_median_of_steps(alternate.times[enabled]) for enabled in (True, False))
    ratio, low, high = _ratio(alternate.times[True], alternate.times[False])
    print(f"{size:.1f} million parameters, {options.completions} x {options.tokens} tokens, {model.device.type}")
    print(f"update step without {1000 * off:.1f} ms, with {1000 * on:.1f} ms (medians of {len(alternate.times[True])})")
    own = inside.seconds / (trainer.state.global_step / 2)  # on for every other generation
    print(f"inside the diagnostics {1000 * own:.2f} ms an update step = {100 * own / off:.2f} %")
    print(f"cost {100 * (ratio - 1):+.2f} % [{100 * (low - 1):+.2f}, {100 * (high - 1):+.2f}]")


def _clock() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


def _median_of_steps(times: list[float]) -> float:
    return statistics.median(times) / UPDATES_PER_GENERATION


def _ratio(on: list[float], off: list[float], draws: int = 2000) -> tuple[float, float, float]:
    """Median of the ratios of neighbouring generations, and its bootstrap interval."""
    pairs = [a / b for a, b in zip(on, off, strict=False)]
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(pairs, k=len(pairs))) for _ in range(draws))
    return statistics.median(pairs), medians[int(0.025 * draws)], medians[int(0.975 * draws)]


def _tokenizer() -> PreTrainedTokenizerFast:
    words = {"<pad>": 0, "<eos>": 1, **{f"w{i}": i for i in range(2, VOCABULARY)}}
    words["w1"] = words.pop(f"w{VOCABULARY - 1}")
    inner = Tokenizer(WordLevel(words, unk_token="w2"))
    inner.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>")


def _model(options: argparse.Namespace, tokenizer: PreTrainedTokenizerFast) -> torch.nn.Module:
    shared = {
        "vocab_size": VOCABULARY,
        "hidden_size": options.hidden,
        "num_hidden_layers": options.layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": options.hidden // 4,
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    torch.manual_seed(0)
    if not options.experts:
        return Qwen3ForCausalLM(Qwen3Config(**shared, intermediate_size=4 * options.hidden))
    config = Qwen3MoeConfig(
        **shared,
        moe_intermediate_size=options.hidden,
        num_experts=options.experts,
        num_experts_per_tok=4,
    )
    return Qwen3MoeForCausalLM(config)


if __name__ == "__main__":
    main()
