import pytest
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

SPECIAL = ["<unk>", "<pad>", "<bos>", "<eos>", "<|im_end|>"]
CHARACTERS = [*"0123456789abcdefghijklmnopqrstuvwxyz[]/.,! \n", *"あいうえお問題答正解疾患です。、"]
CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<bos>' + m['role'] + '\n' + m['content'] + '<|im_end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<bos>assistant\n' }}{% endif %}"
)


@pytest.fixture
def tokenizer() -> PreTrainedTokenizerFast:
    """One token a character, a chat template, and a padding side of its own (right)."""
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *CHARACTERS])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex("[\\s\\S]"), "isolated")
    backend.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        unk_token="<unk>",
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<|im_end|>",
        padding_side="right",
        chat_template=CHAT_TEMPLATE,
    )


@pytest.fixture
def model(tokenizer) -> Qwen3ForCausalLM:
    """A random Qwen3 of a few thousand weights, wide enough in its output for varied greedy text."""
    torch.manual_seed(7)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=512,
        initializer_range=0.4,
        attention_dropout=0.5,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    return Qwen3ForCausalLM(config)
