"""A recipe's arguments: from a YAML file and the command line, every mistake told in one line."""

import dataclasses
import difflib
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import torch
from trl import ModelConfig, TrlParser

from medgrpo.errors import MedgrpoError
from medgrpo.experiment.methods import combine
from medgrpo.experiment.trackers import check_trackers
from medgrpo.mapping_file import read_yaml
from medgrpo.plain_text import visible
from medgrpo.rewards import REWARD_WEIGHTS, get_reward_funcs
from medgrpo.trainers.config import MedGRPOConfig
from medgrpo.trainers.lost_process import LostProcessError
from medgrpo.trainers.reward_calls import RewardError
from medgrpo.trainers.saving import UnsavedError


@dataclass
class ExamArguments:
    """Which questions a recipe trains on and is scored on, and by which rewards."""

    train_file: str | None = field(default=None, metadata={"help": "questions.jsonl to train on."})
    eval_file: str | None = field(
        default=None, metadata={"help": "questions.jsonl to be scored on; default: train_file, other years."}
    )
    train_years: str | None = field(default=None, metadata={"help": "Years to train on, e.g. 2018-2021."})
    eval_years: str | None = field(default=None, metadata={"help": "Years held out, e.g. 2022."})
    near_duplicates: str = field(
        default="leave_out",
        metadata={"help": "Training questions nearly the same as held-out ones: leave_out, refuse or keep."},
    )
    reward_funcs: list[str] = field(
        default_factory=lambda: ["ophtho", "japanese"],
        metadata={"help": "Rewards by name; each has its own weight unless reward_weights says otherwise."},
    )
    eval_batch_size: int = field(default=64, metadata={"help": "Questions scored at a time on each process."})
    eval_max_new_tokens: int | None = field(
        default=None, metadata={"help": "Longest scored completion; default: max_completion_length."}
    )


@dataclass
class AgainstGRPOArguments(ExamArguments):
    """The exam's arguments, and whether GRPO is trained beside the recipe's own method."""

    against_grpo: bool = field(
        default=False,
        metadata={"help": "Train GRPO as well, from the same base with the same settings, and show both."},
    )


Arguments = tuple[ExamArguments, MedGRPOConfig, ModelConfig]


def parse_arguments(
    config_class: type[MedGRPOConfig],
    default_config: Path,
    arguments: Sequence[str] | None = None,
    exam_class: type[ExamArguments] = ExamArguments,
) -> Arguments:
    """Read `--config FILE.yaml` and `--field value`; the command line wins.

    With neither a config nor a model named, `default_config` applies: the embedded tiny model and mini exam.
    Raises `MedgrpoError` for a file that can't be read, an unknown key (with the closest known one), a value
    that doesn't fit, a setting that the method refuses, a tracker that isn't installed, and an option that needs a GPU
    where there is none.
    """
    given = _split_equals(list(sys.argv[1:] if arguments is None else arguments))
    if "--config" not in given and "--model_name_or_path" not in given and "--help" not in given:
        given = ["--config", str(default_config), *given]
    exam, config, model = parse_dataclasses((exam_class, config_class, ModelConfig), given)
    if model.model_name_or_path is None:
        raise MedgrpoError("model_name_or_path is missing: name a model folder, a model of the Hub, or `tiny`")
    if config.hub_token is not None:
        raise MedgrpoError(
            "hub_token: a token in a command or a file stays in histories, process lists and logs: set HF_TOKEN in the "
            "environment, or log in with `hf auth login`"
        )
    _weigh_rewards(exam, config)
    check_trackers(config.report_to, config.project, log_in=_is_first_process())
    if not torch.cuda.is_available():
        _refuse_gpu_options(config, model)
    if isinstance(exam, AgainstGRPOArguments) and exam.against_grpo and config.deepspeed_plugin is not None:
        raise MedgrpoError(
            "against_grpo: DeepSpeed trains one model a process: leave it false, or compare with "
            "recipes/side_by_side.py, which gives each method processes of its own"
        )
    return exam, config, model


def recipe_fields(methods: Sequence[str]) -> set[str]:
    """The names that a settings file of the named methods at once may have, without the choices of single recipes.

    Raises `MedgrpoError` for a method that there is not.
    """
    config, _ = combine(methods)
    return {field.name for kind in (ExamArguments, config, ModelConfig) for field in dataclasses.fields(kind)}


def parse_dataclasses(classes: tuple[type, ...], arguments: Sequence[str] | None = None) -> tuple[Any, ...]:
    """Read one instance of each dataclass from `--config FILE.yaml` and `--field value`; the command line wins.

    Raises `MedgrpoError` for a file that can't be read, an unknown key (with the closest known one), and a
    value that doesn't fit or that a class refuses.
    """
    given = _split_equals(list(sys.argv[1:] if arguments is None else arguments))
    parser = _Parser(classes)
    if "--config" in given:
        _check_config(given, {action.dest for action in parser._actions})
    try:
        with warnings.catch_warnings():
            # TRL sets this field itself, so the user can do nothing about the warning.
            warnings.filterwarnings("ignore", message="`gradient_checkpointing` is deprecated")
            return parser.parse_args_and_config(given)
    except (ValueError, TypeError) as error:
        raise MedgrpoError(_explain(str(error), parser)) from error


def run(main: Callable[[], None]) -> NoReturn:
    """Run a recipe's `main` and exit: 0 when done, 2 with one line on standard error for the user's mistakes."""
    try:
        main()
    except MedgrpoError as error:
        # Each process stops, the first one says why, unless another alone knows.
        if _is_first_process() or isinstance(error, RewardError | LostProcessError | UnsavedError):
            print(visible(f"error: {error}"), file=sys.stderr)
        raise SystemExit(2) from None
    if torch.distributed.is_initialized():
        # Left to the interpreter's end, gloo's threads now and then abort a process that has done all its work.
        torch.distributed.destroy_process_group()
    raise SystemExit(0)


class _Parser(TrlParser):
    def error(self, message: str) -> NoReturn:
        raise MedgrpoError(message)


def _is_first_process() -> bool:
    return os.environ.get("RANK", "0") == "0"


def _split_equals(given: list[str]) -> list[str]:
    """`--config=x.yaml` as two words, as TrlParser wants it."""
    return [part for word in given for part in (word.split("=", 1) if word.startswith("--config=") else [word])]


def _check_config(given: list[str], known: set[str]) -> None:
    index = given.index("--config") + 1
    if index == len(given):
        raise MedgrpoError("--config needs a file: --config recipes/configs/NAME.yaml")
    path = Path(given[index])
    for key in read_yaml(path, "--config"):
        if key not in known and key != "env":
            text = path.read_text(encoding="utf-8")
            line = next(
                (n for n, row in enumerate(text.splitlines(), 1) if re.match(rf"\s*{re.escape(str(key))}\s*:", row)),
                1,
            )
            raise MedgrpoError(f"{path}, line {line}: unknown field {key!r}{_closest(str(key), known)}")


def _closest(name: str, known: set[str]) -> str:
    near = difflib.get_close_matches(name, sorted(known), n=1)
    return f": did you mean {near[0]!r}?" if near else ": see --help for the fields there are"


def _explain(message: str, parser: TrlParser) -> str:
    """The parser's own message in one line; for an unknown option with the closest known one."""
    unknown = re.search(r"not used by the HfArgumentParser: \['--([^']+)'", message)
    if unknown:
        name = unknown[1].split("=", 1)[0]  # what is behind it may be a secret
        return f"unknown option --{name}{_closest(name, {a.dest for a in parser._actions})}"
    return " ".join(message.split())


def _weigh_rewards(exam: ExamArguments, config: MedGRPOConfig) -> None:
    """Give each reward its own weight where none are given; raise for an unknown name or a weight too many."""
    get_reward_funcs(exam.reward_funcs)
    if config.reward_weights is None:
        config.reward_weights = [REWARD_WEIGHTS[name] for name in exam.reward_funcs]
    elif len(config.reward_weights) != len(exam.reward_funcs):
        raise MedgrpoError(
            f"reward_weights: {len(config.reward_weights)} weights for {len(exam.reward_funcs)} rewards "
            f"({', '.join(exam.reward_funcs)}): give one for each"
        )


def _refuse_gpu_options(config: MedGRPOConfig, model: ModelConfig) -> None:
    """Raise for the options that only a GPU can honour, before a model is loaded."""
    attention = model.attn_implementation or ""
    wanted: dict[str, Any] = {
        "fp16": config.fp16,
        "tf32": config.tf32,
        "use_vllm with vllm_mode=colocate": config.use_vllm and config.vllm_mode == "colocate",
        f"attn_implementation={attention}": "flash" in attention,
        f"optim={config.optim}": "8bit" in str(config.optim) or "paged" in str(config.optim),
        "use_liger_kernel": config.use_liger_kernel,
        "load_in_4bit": model.load_in_4bit,
        "load_in_8bit": model.load_in_8bit,
    }
    refused = [name for name, value in wanted.items() if value]
    if refused:
        raise MedgrpoError(f"{', '.join(refused)}: needs a GPU, and there is none here: leave it out")
