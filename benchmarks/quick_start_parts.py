"""Where a training step of the quick start spends its time, with prompts shared and without, by turns.

    python benchmarks/quick_start_parts.py                          # recipes/gspo.py's training
    python benchmarks/quick_start_parts.py --method chord --steps 40

The recipe's model, exam, rewards and settings; one training, in which `shared_prefix` is on for one generation of
rollouts (four updates) and off for the next. Prints the median seconds of a generation's parts, both ways, and the
share of a step that goes into what is watched rather than trained: the diagnostics, CHORD's bookkeeping (drawing
taught samples, logging; not the SFT loss, which is the method), and the check after a sync of weights with a rollout
server, which is run here without a server. On a CPU the processor time of the process counts.
"""

import argparse
import functools
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from medgrpo import CHORDConfig, CHORDTrainer, GSPOConfig, GSPOTrainer, MedGRPOTrainer
from medgrpo.experiment.arguments import AgainstGRPOArguments, ExamArguments, parse_arguments
from medgrpo.experiment.chord_show import find_base, load_teaching
from medgrpo.experiment.exam import load_exam, to_dataset
from medgrpo.experiment.model import find_model
from medgrpo.rewards import get_reward_funcs

CONFIGS = Path(__file__).resolve().parents[1] / "recipes" / "configs"
PARTS = ("generation", "scoring", "update", "rest", "all")
WATCHING = ("diagnostics", "chord", "sync check")
DIAGNOSTICS = ("read_answers", "keep_experts", "add_rewards", "add_update", "before_log")


class Parts(TrainerCallback):
    """Adds up seconds by part, and closes the account after each generation's updates."""

    def __init__(self) -> None:
        self.trainer: MedGRPOTrainer | None = None
        self.now: dict[str, float] = defaultdict(float)
        self.closed: dict[bool, list[dict[str, float]]] = {True: [], False: []}
        self.began = 0.0

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Add the time within to a part."""
        began = _clock()
        yield
        self.now[name] += _clock() - began

    def time(self, owner: Any, method: str, part: str) -> None:
        """Add each call of `owner.method` to a part."""
        stock = getattr(owner, method)

        @functools.wraps(stock)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.part(part):
                return stock(*args, **kwargs)

        setattr(owner, method, timed)

    def on_step_begin(self, args, state, control, **kwargs) -> None:
        """Close one generation's account before the next."""
        if state.global_step % args.steps_per_generation:
            return
        if state.global_step >= 2 * args.steps_per_generation:  # the first two warm up
            self._close()
        args.shared_prefix = not args.shared_prefix
        self.now = defaultdict(float)
        with self.part("sync check"):
            self.trainer._score_probes(self.trainer._find_probes())
        self.began = _clock()

    def _close(self) -> None:
        now = self.now
        now["all"] = _clock() - self.began
        now["update"] = now.pop("training_step") - now.pop("prepare_inputs")  # the one calls the other
        now["rest"] = now["all"] - sum(now[name] for name in ("generation", "scoring", "update"))
        self.closed[self.trainer.args.shared_prefix].append(dict(now))


def main(arguments: Sequence[str] | None = None) -> None:
    """Train by turns and print the parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", choices=("gspo", "chord"), default="gspo")
    parser.add_argument("--steps", type=int, default=100, help="updates, at least 24 (100)")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (1)")
    options = parser.parse_args(arguments)
    if options.steps < 24:
        parser.error("--steps: two generations warm up, and each way needs two more: 24 updates at least")
    torch.set_num_threads(options.threads)
    parts = Parts()
    with tempfile.TemporaryDirectory() as folder:
        trainer = _trainer(options, folder, parts)
        parts.trainer = trainer
        parts.time(trainer, "_generate_single_turn", "generation")
        parts.time(trainer, "_prepare_inputs", "prepare_inputs")
        parts.time(trainer, "training_step", "training_step")
        for method in DIAGNOSTICS:
            parts.time(trainer._diagnostics, method, "diagnostics")
        if isinstance(trainer, CHORDTrainer):
            parts.time(trainer, "_log_mean", "chord")
            parts.time(trainer.sft_stream, "draw", "chord")
        trainer.train()
    _show(parts.closed)


def _trainer(options: argparse.Namespace, folder: str, parts: Parts) -> MedGRPOTrainer:
    chord = options.method == "chord"
    arguments, config, model_arguments = parse_arguments(
        CHORDConfig if chord else GSPOConfig,
        CONFIGS / f"tiny_{options.method}_cpu.yaml",
        ["--output_dir", folder, "--max_steps", str(options.steps), "--log_completions", "false"],
        exam_class=AgainstGRPOArguments if chord else ExamArguments,
    )
    config.disable_tqdm = True
    exam = load_exam(arguments)
    special = {}
    if chord:
        special["chord_sft_dataset"] = load_teaching(config, exam)
        find_base(model_arguments, config)
    model, tokenizer, peft_config = find_model(model_arguments, config, arguments, exam)

    class Timed(CHORDTrainer if chord else GSPOTrainer):
        def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any):
            if torch.is_grad_enabled():
                return super()._get_per_token_logps_and_entropies(*args, **kwargs)
            with parts.part("scoring"):
                return super()._get_per_token_logps_and_entropies(*args, **kwargs)

    return Timed(
        model=model,
        processing_class=tokenizer,
        peft_config=peft_config,
        args=config,
        reward_funcs=get_reward_funcs(arguments.reward_funcs),
        train_dataset=to_dataset(exam.train),
        callbacks=[parts],
        **special,
    )


def _show(closed: dict[bool, list[dict[str, float]]]) -> None:
    medians = {
        shared: {name: statistics.median(account.get(name, 0.0) for account in accounts) for name in PARTS + WATCHING}
        for shared, accounts in closed.items()
    }
    print(f"| ms of a generation and its updates (medians of {len(closed[True])}) | TRL's passes | shared | times |")
    print("| --- | --- | --- | --- |")
    for name in PARTS:
        before, after = medians[False][name], medians[True][name]
        print(f"| {name} | {1000 * before:.1f} | {1000 * after:.1f} | {before / after:.2f} |")
    pairs = [a["all"] / b["all"] for a, b in zip(closed[False], closed[True], strict=False)]
    low, _, high = statistics.quantiles(pairs, n=4)
    print(f"\nwhole: {statistics.median(pairs):.2f} times as fast (middle half of the pairs {low:.2f} to {high:.2f})")
    whole = medians[True]["all"]
    for name in WATCHING:
        print(f"{name}: {1000 * medians[True][name]:.2f} ms = {100 * medians[True][name] / whole:.2f} %")
    together = sum(medians[True][name] for name in WATCHING)
    print(f"together: {100 * together / whole:.2f} %")


def _clock() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


if __name__ == "__main__":
    main()
