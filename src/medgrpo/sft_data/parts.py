"""The two things that the synthesis asks a model for, as JSON schemas: a person's question, and a text in five parts.

The article that this data was first described in names five parts without defining them. These five are this
project's own: symptom, explanation, action, when to see a doctor, caution.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MOST_CHARACTERS = 1200
"""Upper bound of one field, so that a model that repeats itself ends within its tokens."""


@dataclass(frozen=True)
class Part:
    """One part of the medical text: its field, its heading, and the fewest characters that say anything."""

    field: str
    heading: str
    fewest_characters: int
    description: str


PARTS = (
    Part("symptom", "症状の整理", 20, "相談内容から読み取れる症状・状況の要点"),
    Part("explanation", "考えられること", 30, "医学的な説明。なぜそう考えるのかを含む"),
    Part("action", "対応", 20, "今できること、行われる検査や治療"),
    Part("when_to_see_doctor", "受診の目安", 15, "どのようなときに、どれくらい急いで、どこを受診するか"),
    Part("caution", "注意点", 15, "見落としやすい点、避けるべきこと、この説明の限界"),
)

QUESTION_FIELD = "question"
FEWEST_QUESTION_CHARACTERS = 10

STAGES = ("question", "text")
"""Stage 1 writes the question, stage 2 the text that answers it."""


def schema(stage: str) -> dict[str, Any]:
    """The JSON schema of a stage's reply, for the endpoint's structured output."""
    if stage == "question":
        return _object({QUESTION_FIELD: "患者または医療者が自然な日本語でする質問"})
    return _object({part.field: part.description for part in PARTS})


def render_text(parts: Mapping[str, str]) -> str:
    """The five parts as one text, each under its heading."""
    return "\n\n".join(f"【{part.heading}】\n{parts[part.field].strip()}" for part in PARTS)


def _object(fields: Mapping[str, str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            name: {"type": "string", "description": description, "minLength": 1, "maxLength": MOST_CHARACTERS}
            for name, description in fields.items()
        },
        "required": list(fields),
        "additionalProperties": False,
    }
