"""A megabyte of the worst text takes the readers of completions and exams under 0.1 s of the processor's time."""

import json
import re
import time

import pytest

from medgrpo.answers import parse_answer, plain_number
from medgrpo.exams.igakuqa119 import _split_choices
from medgrpo.exams.jsonl import Problems, read_array, read_objects
from medgrpo.exams.keys import count_asked, plain
from medgrpo.exams.leakage import normalise_text
from medgrpo.exams.table import _read_letters, _read_number
from medgrpo.japanese import chinese_rule, is_japanese
from medgrpo.nfkc import nfkc
from medgrpo.rewards import REWARDS

MEGABYTE = 1_000_000
LIMIT_S = 0.1
REFERENCE_S = 0.025
"""What `pace` takes on the machine (one core of a cloud server, otherwise idle) on which the limit was set."""


def fill(unit: str, before: str = "", after: str = "") -> str:
    """`before`, as many `unit`s as go into a megabyte of UTF-8, `after`."""
    room = MEGABYTE - len((before + after).encode())
    return before + unit * (room // len(unit.encode())) + after


def bodies(unit: str, number: int = 31) -> str:
    """As many tags with different wordings as are read, all as long as they may be."""
    return "".join(f"[ans]{unit * (240 // len(unit))}{' ' * i}b[/ans]" for i in range(number))


WORST = {
    # What a profile and the fuzzer found: each took 0.15 to 2.3 s, or minutes, before it was mended.
    "18 characters of one": fill("ﷺ"),
    "18 characters of one, in tags": fill("[ans]ﷺ[/ans]"),
    "tags that differ in it": "".join(f"[ans]{'ﷺ' * 200}{'a' * i}[/ans]" for i in range(400))[:330_000],
    "marks of two classes": fill("\u0301\u0323", "あ"),
    "marks between a tag and a stroke": fill("\u0323", "</think>", "\u0338"),
    "struck tags": fill("</think>\u0338"),
    "half-width kana": fill("ｶﾞ"),
    "open brackets": fill("[ "),
    "blanks in a tag": fill(" ", "[ans"),
    "tags": fill("[ans]a[/ans]"),
    "tags of other letters": fill("［ａｎｓ］"),
    "angle brackets": fill("<", "あ"),
    "letters": fill("a", "急"),
    "tags that are none": fill("<a", "急"),
    "numbers in tags": bodies("1."),
    "lines in tags": bodies("a\n"),
    "newlines in a tag": f"[ans]x{chr(10) * 3900}x[/ans]",
    "conclusions in a tag": f"[ans]{'解答' * 1990}5[/ans]",
    "a working in a tag": f"[ans]{' '.join(map(str, range(1000, 1700)))} 答え 5[/ans]",
    "words in a tag": f"[ans]{'Aa ' * 1300}[/ans]",
    "brackets in a tag": f"[ans]{'([' * 990}a{'])' * 990}[/ans]",
    "one weak sign": fill("其", "急"),
    "weak signs apart": fill("其。", "急"),
    "commas": fill("急，", "急"),
    "signs taken out": fill("看護比較申請当該普及行為慶應終了国是場所以外", "急"),
    "English words": fill("the ", "急"),
    "capitals": fill("T ", "急"),
    "clauses": fill("急、あ、", "急"),
    "quotations": fill("「急", "急"),
    "full stops": fill("急。"),
    "astral kanji": fill("𠀀"),
    "how many to choose": fill("2つ選", "急"),
    "blanks and an or": fill(" ", "a", "b or c"),
    "choices in a row": fill(" a急 b急 c急 d急", "。"),
}


def letters_cell(text: str) -> None:
    _read_letters(text, lambda column, message: None)


def number_cell(text: str) -> None:
    _read_number(text, lambda column, message: None)


READERS = (
    parse_answer,
    plain_number,
    is_japanese,
    chinese_rule,
    count_asked,
    plain,
    _split_choices,
    letters_cell,
    number_cell,
)


def best_of_3(function, argument, enough: float = LIMIT_S) -> float:
    """Seconds of this process's own work, so that neighbours don't count."""
    times = []
    for _ in range(3):
        start = time.process_time()
        function(argument)
        times.append(time.process_time() - start)
        if times[-1] < enough:
            break
    return min(times)


@pytest.fixture(scope="module")
def limit() -> float:
    """0.1 s; more where this machine is slower than the reference or shares its cores, as a fixed search tells."""
    pattern, text = re.compile("<(/)?[tT][hH]"), "<a" * (MEGABYTE // 2)
    pace = max(best_of_3(pattern.search, text, 0.0) for _ in range(3))
    return LIMIT_S * max(1.0, pace / REFERENCE_S)


@pytest.mark.parametrize("name", WORST)
def test_a_megabyte_of_the_worst_is_read_at_once(name: str, limit: float) -> None:
    slow = {reader.__name__: seconds for reader in READERS if (seconds := best_of_3(reader, WORST[name])) >= limit}
    assert slow == {}


@pytest.mark.parametrize("name", ["ophtho", "chinese", "japanese"])
def test_so_are_the_rewards(name: str, limit: float) -> None:
    def reward(text: str) -> None:
        REWARDS[name]([[{"role": "assistant", "content": text}]], prompts=["p"], answer=[[["a"]]])

    assert (
        max(best_of_3(reward, WORST[worst]) for worst in ("tags", "weak signs apart", "18 characters of one")) < limit
    )


@pytest.mark.parametrize("unit", ["\u0301\u0323", "a\u0301\u0323\u0327", "ｶﾞ", "急"])
def test_normalising_is_linear(unit: str) -> None:
    """NFKC itself makes 18 characters of one, so the limit is on what stays the same length."""
    text = fill(unit)
    for function in (nfkc, normalise_text):
        assert best_of_3(function, text) < 1.0


@pytest.mark.parametrize(
    ("read", "content"),
    [
        (read_array, "[" + ",".join(["{}"] * 300_000) + "]"),
        (read_array, "[" + ",\n".join(['{"number": "119A1"}'] * 40_000) + "]"),
        (read_array, "[" + " " * MEGABYTE),
        (read_objects, "\n" * MEGABYTE),
        (read_objects, "{" + ", ".join(f'"{i}": 0' for i in range(80_000)) + ', "79999": 1}'),
        (read_objects, "[" * MEGABYTE),
        (read_objects, '{"a": ' + "9" * MEGABYTE + "}"),
    ],
    ids=["objects", "lines", "blanks", "newlines", "a doubled key", "brackets", "digits"],
)
def test_a_file_of_a_megabyte_is_read_in_linear_time(read, content: str, limit: float, tmp_path) -> None:
    """A file of 300,000 objects makes as many objects in Python, 1 to 2 s: quadratic would be hours."""
    path = tmp_path / "exam.json"
    path.write_text(content)
    assert best_of_3(lambda file: read(file, Problems()), path) < 40 * limit


def test_a_number_of_thousands_of_digits_is_refused_not_raised(tmp_path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(json.dumps({"id": "1"}) + '\n{"id": ' + "9" * 5000 + "}\n")
    problems = Problems()
    read_objects(path, problems)
    assert problems.count == 1 and "line 2" in problems.first[0]
