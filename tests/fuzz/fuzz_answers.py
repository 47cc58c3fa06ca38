"""Coverage-guided fuzzing of everything that reads a model's completion or an exam's cell.

python tests/fuzz/fuzz_answers.py                          # until it finds something or is stopped
python tests/fuzz/fuzz_answers.py -max_total_time=300      # five minutes; further options are libFuzzer's

Needs atheris (`pip install atheris`; Linux, Python 3.11 to 3.13), which is no dependency of the project: its findings
become tests in tests/security and tests/test_answers.py. What is checked of any text: nothing raises, a text and its
NFKC form are read alike, an answer is one that can be written, and a short text takes no time.
"""

import sys
import time
import unicodedata
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

with atheris.instrument_imports(include=["medgrpo"]):
    from medgrpo.answers import Answer, is_correct, parse_answer, plain_number
    from medgrpo.exams.keys import count_asked, plain
    from medgrpo.japanese import chinese_rule, is_japanese

# Pieces that the mutations of single bytes would take long to find.
PIECES = (
    *(
        "[ans]",
        "[/ans]",
        "<think>",
        "</think>",
        "［ａｎｓ］",
        "[a㎱]",
        "a",
        "b",
        "c",
        "j",
        "(",
        ")",
        "「",
        "」",
        "\n",
        " ",
        "　",
    ),
    *(
        "答え",
        "解答:",
        "よって",
        "または",
        "or",
        "は",
        "の",
        "、",
        "。",
        "1",
        "2",
        "2.5",
        "1,000",
        "mg/dl",
        "e5",
        "=",
        "≒",
        "約",
    ),
    *(
        "\u0301",
        "\u0323",
        "\u0338",
        "ﷺ",
        "ﾞ",
        "①",
        "⒈",
        "つ選べ",
        "急",
        "看護",
        "其",
        "的",
        "，",
        "或",
        "是",
        "The ",
        "is ",
    ),
)
SLOW_S = 0.5


def make_text(data: bytes) -> str:
    """Bytes below 128 choose a piece, the others are text in UTF-8."""
    provider = atheris.FuzzedDataProvider(data)
    parts = []
    while provider.remaining_bytes() > 0 and len(parts) < 200:
        choice = provider.ConsumeIntInRange(0, len(PIECES) + 8)
        parts.append(PIECES[choice] if choice < len(PIECES) else provider.ConsumeUnicode(8))
    return "".join(parts)


def check(data: bytes) -> None:
    """One text through every reader."""
    text = make_text(data)
    start = time.process_time()
    for given in (text, f"[ans]{text}[/ans]"):
        answer = parse_answer(given)
        if answer is not None:
            written = Answer(answer.letters, answer.number)
            accepted = [[answer.number]] if answer.number is not None else [list(answer.letters)]
            assert written == answer and is_correct(answer, accepted), given
        alike = parse_answer(unicodedata.normalize("NFKC", given))
        assert alike == answer, f"{given!r}: {answer} but in NFKC {alike}"
    plain_number(text)
    plain(text)
    count_asked(text)
    chinese_rule(text)
    is_japanese(text)
    assert time.process_time() - start < SLOW_S, f"slow: {text!r}"


if __name__ == "__main__":
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()
