"""The tiny model's tokenizer: the exam's terms and set phrases are whole words, all else falls to bytes.

A choice is then one token, and an exam question with its five choices about thirty: what keeps a training
step on a CPU under a second. Any text can still be written and read back unchanged.
"""

import re

from tokenizers import AddedToken, Tokenizer, decoders
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast

from medgrpo.exams.prompts import CHOICE_INSTRUCTION, NUMBER_INSTRUCTION, SYSTEM_PROMPT
from medgrpo.tiny.corpus import PHRASES
from medgrpo.tiny.facts import load_facts

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def _characters() -> list[str]:
    """ASCII, kana, full-width ASCII and the punctuation of Japanese; kanji outside of terms are bytes."""
    spans = [(0x20, 0x7F), (0x3000, 0x3020), (0x3041, 0x3097), (0x30A1, 0x30FD), (0xFF01, 0xFF5F)]
    return ["\n", *(chr(code) for low, high in spans for code in range(low, high)), "…"]


def words() -> list[str]:
    """Every string that is one token although it is longer than a character."""
    found: dict[str, None] = {}
    for fact in load_facts():
        relation = fact.relation
        texts = [fact.entity, *fact.values]
        for template in (
            relation.question,
            relation.question_multi,
            relation.statement,
            relation.statement_multi,
        ):
            # Statements are cut at the value, where the completion writes the choice's letter.
            texts += re.split(r"\{v\}", template.replace("{e}", ""))
        found.update(dict.fromkeys(text for text in texts if len(text) > 1))
    roles = ["system\n", "user\n", "assistant\n"]
    letters = [f"{letter}. " for letter in "abcde"] + [f"({letter})" for letter in "abcde"]
    fixed = [*roles, *letters, "[ans]", "[/ans]", *PHRASES]
    prompts = [SYSTEM_PROMPT, CHOICE_INSTRUCTION, NUMBER_INSTRUCTION]
    found.update(dict.fromkeys(fixed + prompts))
    return list(found)


def build_tokenizer() -> PreTrainedTokenizerFast:
    """The tokenizer with its chat template; deterministic."""
    vocabulary = [PAD, START, END, *(f"<0x{byte:02X}>" for byte in range(256)), *_characters()]
    model = BPE(vocab={token: index for index, token in enumerate(vocabulary)}, merges=[], byte_fallback=True)
    tokenizer = Tokenizer(model)
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens([PAD, START, END])
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in words()])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=4096,
        padding_side="left",
    )
