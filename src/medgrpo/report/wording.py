"""The words of a page in one language, from the catalogue that holds each text in every language."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from medgrpo.errors import MedgrpoError

LANGUAGES = ("ja", "en")


@dataclass(frozen=True)
class Wording:
    """The texts of one language by key."""

    lang: str
    texts: dict[str, str]

    def __call__(self, key: str, **values: Any) -> str:
        """The text with its {fields} filled; `KeyError` for a key or a field that is none."""
        return self.texts[key].format(**values)

    def join(self, names: list[str]) -> str:
        """Names as a list within a sentence."""
        return self.texts["list.comma"].join(names)


def read_wording(lang: str) -> Wording:
    """The texts in `lang`; raises `MedgrpoError` for a language that the pages do not speak."""
    if lang not in LANGUAGES:
        raise MedgrpoError(f"no report in the language {lang!r}: choose from {', '.join(LANGUAGES)}")
    return Wording(lang, {key: texts[lang] for key, texts in read_catalogue().items()})


@cache
def read_catalogue() -> dict[str, dict[str, str]]:
    """Key -> language -> text, as `templates/comparison_texts.yaml` has it."""
    text = files("medgrpo.report").joinpath("templates", "comparison_texts.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)
