"""The base model of an experiment, and the adapter to train on it where one is asked for."""

from typing import TYPE_CHECKING

from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerBase
from trl import ModelConfig, get_peft_config, get_quantization_config

from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.load import readable, resolve_model
from medgrpo.trainers.config import MedGRPOConfig

if TYPE_CHECKING:
    from peft import PeftConfig


def find_model(
    arguments: ModelConfig, config: MedGRPOConfig
) -> tuple[str, PreTrainedTokenizerBase, "PeftConfig | None"]:
    """What the trainer needs of the model: its place, its tokenizer, and LoRA's settings with `--use_peft`.

    How to load it (dtype, float32 by default, attention, revision) goes to `config.model_init_kwargs`, so that
    TRL loads the reference model of the KL term likewise. `arguments.model_revision` becomes the commit that it
    stands for, None for a folder, so that every record names what was really used. Raises `MedgrpoError` for a
    model or revision that is not there or can't be read, one without a chat template, and for `use_peft`
    without the package peft.
    """
    given = dict(config.model_init_kwargs or {})
    wanted = given.pop("revision", arguments.model_revision)
    source, revision = resolve_model(arguments.model_name_or_path, wanted)
    arguments.model_revision = revision
    with readable(source):
        AutoConfig.from_pretrained(source, revision=revision)
        tokenizer = AutoTokenizer.from_pretrained(source, revision=revision)
    if tokenizer.chat_template is None:
        raise MedgrpoError(f"model {source}: its tokenizer has no chat template: start from an instruct model")
    options = {
        "dtype": arguments.dtype,
        "attn_implementation": arguments.attn_implementation,
        "revision": revision,
    }
    quantization = get_quantization_config(arguments)
    if quantization is not None:
        options["quantization_config"] = quantization
    config.model_init_kwargs = {**{k: v for k, v in options.items() if v is not None}, **given}
    try:
        return source, tokenizer, get_peft_config(arguments)
    except ValueError as error:
        raise MedgrpoError("use_peft needs the package peft: pip install 'medgrpo[peft]'") from error
