"""Whether a rollout server can serve this run: asked before the first step, refused in one line."""

from collections.abc import Mapping
from typing import Any

from transformers import PretrainedConfig, PreTrainedTokenizerBase

from medgrpo.distributed.rollout_server import RolloutServer, ServerFault, ServerRefusal
from medgrpo.distributed.vllm_server import EXTENSION
from medgrpo.errors import MedgrpoError

# What two models of one architecture differ in; where both sides name it, it has to agree.
SHAPE = (
    "model_type",
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "moe_intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "num_experts",
    "num_local_experts",
    "num_experts_per_tok",
    "tie_word_embeddings",
)
# Whatever a vocabulary was made for, it cuts some of this in its own way.
SAMPLE = "62歳の男性。眼圧 25 mmHg, visual field defect. 正解は(b) 緑内障 glaucoma である。\n<|im_end|>"


def check_server(
    server: RolloutServer,
    config: PretrainedConfig,
    tokenizer: PreTrainedTokenizerBase,
    max_completion_length: int,
    nccl: bool = False,
) -> str:
    """The dtype that the server computes in, such as "float32".

    Raises `MedgrpoError` for a server that no weights can be sent to, of another model or vocabulary, or whose
    `--max-model-len` leaves no room.
    """
    url = server.base_url
    try:
        server.read_model()
        info = server.get_server_info()
        extension = info["parallel_config"]["worker_extension_cls"]
        if extension != EXTENSION:
            raise MedgrpoError(f"{url}: the server takes no weights from a training run: start it with `medgrpo serve`")
        if nccl and not info.get("weight_transfer_config"):
            raise MedgrpoError(
                f"{url}: the server has no weight-transfer engine: start it with `medgrpo serve --sync nccl`, or train "
                "with vllm_sync=filesystem"
            )
        theirs = server.call_workers("medgrpo_loaded")
        _compare(url, config.get_text_config().to_dict(), theirs["config"])
        if server.tokenize(SAMPLE) != tokenizer(SAMPLE, add_special_tokens=False)["input_ids"]:
            raise MedgrpoError(
                f"{url}: the server's vocabulary is another one: start it with the model that is trained"
            )
        longest = info["model_config"]["max_model_len"]
    except ServerRefusal as refusal:
        if refusal.status != 404:
            raise
        raise MedgrpoError(
            f"{url}: no vLLM server with development endpoints, which replace weights: start it with `medgrpo serve`"
        ) from refusal
    except ServerFault as fault:
        raise MedgrpoError(f"{url}: the server does not answer as vLLM does: {fault}") from fault
    except (KeyError, TypeError) as error:
        raise MedgrpoError(f"{url}: the server does not answer as vLLM 0.22 to 0.31 does: no {error}") from error
    if longest <= max_completion_length:
        raise MedgrpoError(
            f"{url}: the server's max_model_len {longest} leaves no prompt beside max_completion_length "
            f"{max_completion_length}: start it with a larger --max-model-len"
        )
    server.vocab_size = config.get_text_config().vocab_size
    return str(theirs["dtype"])


def _compare(url: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    for name in SHAPE:
        if name in ours and name in theirs and ours[name] != theirs[name]:
            raise MedgrpoError(
                f"{url}: the server serves another model ({name} is {theirs[name]}, {ours[name]} in the one that is "
                "trained): start it with that one"
            )
