"""What docs/data-formats.md shows of samples.jsonl and run.json is what scoring writes."""

import json
import re
from dataclasses import asdict, fields
from pathlib import Path

from medgrpo.evaluation.run_info import build_run_info
from medgrpo.evaluation.samples import SCHEMA, Sample
from medgrpo.evaluation.score import score_completions
from medgrpo.exams.question import FIELDS, Question
from medgrpo.exams.table import COLUMNS

DOCS = (Path(__file__).resolve().parents[1] / "docs" / "data-formats.md").read_text(encoding="utf-8")
QUESTION, SAMPLE, RUN = map(json.loads, re.findall(r"```json\n(.*?)```", DOCS, re.S))


def test_the_documented_sample_is_what_scoring_makes_of_the_documented_question():
    assert list(QUESTION) == list(FIELDS)
    (sample,) = score_completions([Question.from_json(QUESTION)], {QUESTION["id"]: SAMPLE["completion"]})
    assert asdict(sample) == SAMPLE
    assert list(SAMPLE) == [f.name for f in fields(Sample)]


def test_the_documented_run_has_the_fields_that_every_run_has():
    nothing = dict.fromkeys(("model", "revision", "prompt_template", "sampling", "seed"))
    assert list(RUN) == ["schema", *build_run_info(**nothing)]
    assert RUN["schema"] == SCHEMA


def test_every_field_and_column_is_explained():
    for name in {*FIELDS, *COLUMNS, *(f.name for f in fields(Sample))}:
        assert f"`{name}`" in DOCS, name
