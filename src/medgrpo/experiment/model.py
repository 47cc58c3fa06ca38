"""The base model of an experiment, and the adapter to train on it where one is asked for."""

from typing import TYPE_CHECKING

from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerBase
from trl import ModelConfig, get_peft_config, get_quantization_config

from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.load import count_tokens_with, find_context, readable, resolve_model
from medgrpo.exams.prompt_length import refuse_long_prompts
from medgrpo.experiment.arguments import ExamArguments
from medgrpo.experiment.exam import Exam
from medgrpo.trainers.config import MedGRPOConfig

if TYPE_CHECKING:
    from peft import PeftConfig


def find_model(
    arguments: ModelConfig, config: MedGRPOConfig, exam_arguments: ExamArguments | None = None, exam: Exam | None = None
) -> tuple[str, PreTrainedTokenizerBase, "PeftConfig | None"]:
    """What the trainer needs of the model: its place, its tokenizer, and LoRA's settings with `--use_peft`.

    How to load it (dtype, float32 by default, attention, revision) goes to `config.model_init_kwargs`, so that
    TRL loads the reference model of the KL term likewise. `arguments.model_revision` becomes the commit that it
    stands for, None for a folder, so that every record names what was really used. Raises `MedgrpoError` for a
    model or revision that is not there or can't be read, one without a chat template, and for `use_peft`
    without the package peft. With the exam and its arguments also for prompts that are longer than the model.
    """
    given = dict(config.model_init_kwargs or {})
    wanted = given.pop("revision", arguments.model_revision)
    source, revision = resolve_model(arguments.model_name_or_path, wanted)
    arguments.model_revision = revision
    with readable(source):
        # Code from a model's repository runs only where `model_init_kwargs` asks for it.
        trusted = bool(given.get("trust_remote_code", False))
        model_config = AutoConfig.from_pretrained(source, revision=revision, trust_remote_code=trusted)
        tokenizer = AutoTokenizer.from_pretrained(source, revision=revision, trust_remote_code=trusted)
    if tokenizer.chat_template is None:
        raise MedgrpoError(f"model {source}: its tokenizer has no chat template: start from an instruct model")
    if exam is not None and exam_arguments is not None:
        _refuse_long_prompts(exam_arguments, exam, config, tokenizer, find_context(model_config))
    options = {
        "dtype": arguments.dtype,
        "attn_implementation": arguments.attn_implementation,
        "revision": revision,
    }
    quantization = get_quantization_config(arguments)
    if quantization is not None:
        options["quantization_config"] = quantization
    config.model_init_kwargs = {**{k: v for k, v in options.items() if v is not None}, **given, "use_safetensors": True}
    try:
        return source, tokenizer, get_peft_config(arguments)
    except ValueError as error:
        raise MedgrpoError("use_peft needs the package peft: pip install 'medgrpo[peft]'") from error


def _refuse_long_prompts(
    arguments: ExamArguments,
    exam: Exam,
    config: MedGRPOConfig,
    tokenizer: PreTrainedTokenizerBase,
    context: int | None,
) -> None:
    count = count_tokens_with(tokenizer, config.chat_template_kwargs)
    train_file = str(arguments.train_file)
    refuse_long_prompts(train_file, exam.train, count, context, config.max_completion_length, "max_completion_length")
    option = "eval_max_new_tokens" if arguments.eval_max_new_tokens else "max_completion_length"
    tokens = arguments.eval_max_new_tokens or config.max_completion_length
    refuse_long_prompts(arguments.eval_file or train_file, exam.held_out, count, context, tokens, option)
