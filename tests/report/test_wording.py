import re
from importlib.resources import files
from string import Formatter

import pytest

from medgrpo.errors import MedgrpoError
from medgrpo.report.wording import LANGUAGES, read_catalogue, read_wording

JAPANESE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def test_every_text_is_there_in_every_language_with_the_same_fields():
    for key, texts in read_catalogue().items():
        assert tuple(texts) == LANGUAGES, key
        assert fields(texts["ja"]) == fields(texts["en"]), key
        assert not JAPANESE.search(texts["en"]), key
        assert "<" not in texts["ja"].replace(" < ", "").replace("< ", ""), f"{key} holds markup"


def test_every_text_is_used_and_every_used_text_is_there():
    room = files("medgrpo.report")
    sources = [path for path in (*room.iterdir(), *room.joinpath("templates").iterdir()) if path.is_file()]
    code = "\n".join(path.read_text("utf-8") for path in sources if not path.name.endswith(".yaml"))
    families = ("section.", "verdict.", "say.better", "say.worse", "changes.", "pass.", "word.all", "word.text_only")
    families += ("curve.",)
    for key in read_catalogue():
        assert f'"{key}"' in code or key.startswith(families), f"{key} is used nowhere"
    for key in re.findall(r'(?:say|\bt|wording)\("([a-z_.]+\.[a-z_.]+)"[,)]', code):
        assert key in read_catalogue(), key


def test_a_text_is_filled_and_names_are_listed():
    japanese, english = read_wording("ja"), read_wording("en")
    assert japanese.join(["a", "b"]) == "a、b" and english.join(["a", "b"]) == "a, b"
    assert english("title", base="{x} <b>") == "Comparison with {x} <b>"
    with pytest.raises(KeyError):
        english("title")
    with pytest.raises(MedgrpoError, match="'de'"):
        read_wording("de")
