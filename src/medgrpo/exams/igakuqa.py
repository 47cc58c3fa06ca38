"""IgakuQA's files become questions: the Japanese medical licensing exam, 2018 to 2022 (112th to 116th).

Kasai et al., "Evaluating GPT-4 and ChatGPT on Japanese Medical Licensing Examinations" (arXiv 2303.18027),
publish `data/{year}/{number}-{block}.jsonl` with `{number}-{block}_metadata.jsonl` beside it.
"""

import re
from collections.abc import Callable, Collection
from pathlib import Path
from string import ascii_lowercase as LETTERS
from typing import Any

from medgrpo.errors import MedgrpoError
from medgrpo.exams.checkout import stays_inside
from medgrpo.exams.jsonl import Complain, Problems, read_objects
from medgrpo.exams.keys import LONGEST_KEY, count_asked, plain
from medgrpo.exams.question import Question, find_faults, shorten

EXAM = "igakuqa"
BLOCKS = "ABCDEF"
REQUIRED_BLOCKS = "BE"
"""必修 are the blocks B and E since the exam took its present form of six blocks in 2018."""
FIRST_YEAR = 2018
YEAR_OF_EXAM_0 = 1906
"""The 116th exam was held in 2022."""

BOARD_DECISIONS: dict[str, dict[str, Any]] = {
    "116A71": {"scoring": "credited"},
    "116B6": {"counted_only_if_right": True},
}
"""What the exam board decided and the files do not show, as fields of the question.

Questions withdrawn for everybody are told by their 0 points: 112A43, 113A5, 113C34, 113F42, 113F81, 114F63,
116A34, 116C36 and 116D64 leave the 300 points of the other questions, 114E29 and 116B43 (3 points each) the 200
of the required ones, which is why 2020 and 2022 ask for 158 of 197 points and not for 160 of 200.
- 116A71: the board accepted four answers to "which three"; the files ask for the least likely one instead, so
  its key is not the board's. Credited, as the files' users treat it. That it lacks `human_accuracy` tells
  nothing, for 115C6 lacks it too, and no such decision is known of that one.
- 116B6: among the 116th exam's specially treated questions (m3e.jp/igaku/topics/kokushi/116jogai/). Neither
  withdrawn (the required questions gave 197 points) nor given a second answer, so treated in the remaining way
  that the board has for required questions: it counts only for who got it right (44 % of the examinees).
"""

_OR = re.compile(r"(?<!\s)\s+or\s+")
_TEMPLATE = re.compile(r"解答\s*[：:]\s*((?:[0-9][0-9,，\s]*)?)([①-⑨]+)(?:[.．]([①-⑨]+))?")


def read_igakuqa(source: str | Path, years: Collection[int] | None = None) -> list[Question]:
    """Read a checkout of IgakuQA (or its data folder): the given years, or all that it has, in exam order.

    Raises `MedgrpoError` with file, line and field of the first ten problems, and how many there are: nothing
    is skipped or guessed. A year is read whole: six blocks, each with its metadata, numbered without a gap.
    """
    folders = _find_years(Path(source))
    absent = sorted(set(folders if years is None else years) - set(folders))
    if absent:
        raise MedgrpoError(
            f"{source}: has no folder for {', '.join(map(str, absent))}: "
            f"there are {', '.join(map(str, sorted(folders)))}"
        )
    problems = Problems()
    questions = []
    for year, folder in sorted(folders.items()):
        if years is None or year in years:
            for block in BLOCKS:
                questions += _read_block(Path(source), folder, year, block, problems)
    problems.raise_if_any()
    return questions


def _find_years(source: Path) -> dict[int, Path]:
    root = source / "data" if (source / "data").is_dir() else source
    if not root.is_dir():
        raise MedgrpoError(f"{source}: is no folder: give a checkout of IgakuQA or its data folder")
    found = {int(p.name): p for p in root.iterdir() if re.fullmatch("[0-9]{4}", p.name) and p.is_dir()}
    if not found:
        raise MedgrpoError(f"{source}: has no folders 2018, 2019, ...: give a checkout of IgakuQA")
    early = [year for year in sorted(found) if year < FIRST_YEAR]
    if early:
        raise MedgrpoError(f"{root / str(early[0])}: exams before {FIRST_YEAR} had other blocks: remove it")
    return found


def _read_block(root: Path, folder: Path, year: int, block: str, problems: Problems) -> list[Question]:
    number = year - YEAR_OF_EXAM_0
    path, metadata_path = folder / f"{number}-{block}.jsonl", folder / f"{number}-{block}_metadata.jsonl"
    missing = [p for p in (path, metadata_path) if not p.is_file()]
    for p in missing:
        problems.add(p, "is missing: complete the checkout")
    if missing or not all([stays_inside(p, root, problems) for p in (path, metadata_path)]):
        return []
    metadata: dict[str, tuple[int, dict[str, Any]]] = {}
    for line, record in read_objects(metadata_path, problems):
        name = record.get("problem_id")
        if not isinstance(name, str) or name in metadata:
            problems.add(metadata_path, f"{name!r} is no new id", line, "problem_id")
        else:
            metadata[name] = (line, record)

    questions = []
    seen = set()
    previous = 0
    for line, record in read_objects(path, problems):
        name = record.get("problem_id")
        position = re.fullmatch(f"{number}{block}([1-9][0-9]*)", name) if isinstance(name, str) else None
        if position is None:
            problems.add(path, f"is {name!r}, has to be like {number}{block}1", line, "problem_id")
            continue
        if int(position[1]) != previous + 1:
            message = f"is {name}, has to be {number}{block}{previous + 1}: a line is lost, doubled or moved"
            problems.add(path, message, line, "problem_id")
        previous = int(position[1])
        seen.add(name)
        if name not in metadata:
            problems.add(metadata_path, f"has no line for {name}: complete the checkout")
            continue
        metadata_line, about = metadata[name]
        complain, complain_metadata = problems.at(path, line), problems.at(metadata_path, metadata_line)
        question = _convert(record, about, year, block, complain, complain_metadata)
        if question is not None:
            questions.append(question)
    for name, (line, _) in metadata.items():
        if name not in seen:
            problems.add(metadata_path, f"{name} is not in {path.name}: complete the checkout", line, "problem_id")
    if not seen and not metadata:
        problems.add(path, "holds no question: complete the checkout")
    return questions


def _convert(
    record: dict[str, Any],
    metadata: dict[str, Any],
    year: int,
    block: str,
    complain: Complain,
    complain_metadata: Complain,
) -> Question | None:
    """Build one question, or complain of every field at fault and return None."""
    shapes_hold = _check_shapes(record, _FIELDS, complain)
    if not _check_shapes(metadata, _METADATA_FIELDS, complain_metadata) or not shapes_hold:
        return None
    text = record["problem_text"].strip()
    choices = {letter: choice.strip() for letter, choice in zip(LETTERS, record["choices"], strict=False)}
    answer = (_read_letters if choices else _read_number)(record["answer"], text, complain)
    if record["text_only"] and not all(choices.values()):
        complain("choices", "one is blank in a question without images: restore its text")
        return None
    if not answer:
        return None
    points = int(record["points"])
    converted = {
        "id": record["problem_id"],
        "question": text,
        "choices": choices,
        "answer": answer,
        "answer_type": "choice" if choices else "number",
        "scoring": "excluded" if points == 0 else "normal",
        "exam": EXAM,
        "year": year,
        "department": metadata["category"].strip(),
        "text_only": record["text_only"],
        "points": points,
        "required": block in REQUIRED_BLOCKS,
        # Some hold several letters in one string (112A27 ["cde"]), a blank (115E28 " e"), a full-width one.
        "contraindicated": sorted(set(plain("".join(metadata["kinki"])).replace(" ", ""))),
        # The files' `breakdown` (how often each choice was taken) has slips such as 917.1: not read.
        "student_accuracy": _read_share(metadata.get("human_accuracy", "")),
        **BOARD_DECISIONS.get(record["problem_id"], {}),
    }
    faults = find_faults(converted)
    for field, message in faults:
        if field in METADATA_NAMES:
            complain_metadata(METADATA_NAMES[field], message)
        else:
            complain("problem_text" if field == "question" else field, message)
    return None if faults else Question(**converted)


def _read_letters(answer: list[str], text: str, complain: Complain) -> list[list[str]]:
    """Read ["a"], ["a", "c"] or ["a or d"]; "ac" in one string could mean either, so it is refused."""
    if len(answer) == 1:
        accepted = [[letter] for letter in _OR.split(plain(answer[0])[:LONGEST_KEY])]
    else:
        accepted = [sorted(map(plain, answer))]
    if not all(re.fullmatch("[a-z]", letter) for letters in accepted for letter in letters):
        complain("answer", f'is {shorten(answer)}, has to be like ["a"], ["a", "c"] or ["a or d"]')
        return []
    asked = count_asked(text)
    if asked and any(len(letters) != asked for letters in accepted):
        complain("answer", f"is {answer}, but the question asks for {asked}: restore the key")
        return []
    return accepted


def _read_number(answer: list[str], text: str, complain: Complain) -> list[list[str]]:
    """Read the key of a question for a number; its sheet (解答：①.②) says where a lost point belongs.

    Every blank takes one digit: "21" in ①.② is 2.1, "04" is 0.4. A sheet may print leading digits itself
    (解答：1, ①②③ kcal, key "130"): then what fills the blanks and the whole number, 1130, are both right.
    """
    sheets = _TEMPLATE.findall(text)
    if not sheets:
        complain("problem_text", "has neither choices nor a sheet such as 解答：①.②: restore one of them")
        return []
    printed, whole, part = sheets[-1]
    sheet = f"{whole}.{part}" if part else whole
    key = re.fullmatch(r"([0-9]+)(?:\.([0-9]+))?", plain(answer[0])) if len(answer) == 1 else None
    digits = key[1] + (key[2] or "") if key else ""
    if key is None or len(digits) != len(whole) + len(part) or (key[2] and len(key[2]) != len(part)):
        complain("answer", f"is {answer}, which does not fill the sheet {sheet}: one digit for each blank")
        return []
    fraction = f".{digits[len(whole) :]}" if part else ""
    accepted = [[(digits[: len(whole)].lstrip("0") or "0") + fraction]]
    if printed:
        accepted.append([re.sub("[^0-9]", "", printed) + digits[: len(whole)] + fraction])
    return accepted


def _read_share(percent: str) -> float | None:
    """Read "90.6" as 0.906; blank (withdrawn questions, 115C6, 116A71) is unknown."""
    return round(float(percent) / 100, 6) if percent else None


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


_FIELDS = {
    "problem_text": (lambda v: isinstance(v, str), "a text"),
    "choices": (lambda v: _is_texts(v) and len(v) <= 26, "a list of texts, 26 at most"),
    "text_only": (lambda v: isinstance(v, bool), "true or false"),
    "answer": (lambda v: _is_texts(v) and len(v) > 0, 'a list of texts such as ["a", "c"]'),
    "points": (lambda v: isinstance(v, str) and re.fullmatch("[0-9]", v), 'one digit as text, such as "1"'),
}
METADATA_NAMES = {"department": "category", "contraindicated": "kinki", "student_accuracy": "human_accuracy"}
_OPTIONAL = ("human_accuracy",)
_METADATA_FIELDS = {
    "category": (lambda v: isinstance(v, str), "a text"),
    "kinki": (_is_texts, 'a list of letters such as ["c"], or []'),
    "human_accuracy": (
        lambda v: isinstance(v, str) and (v == "" or re.fullmatch(r"[0-9]{1,3}(\.[0-9]+)?", v)),
        'a percentage as text, such as "90.6", or ""',
    ),
}


def _check_shapes(
    record: dict[str, Any], shapes: dict[str, tuple[Callable[[Any], Any], str]], complain: Complain
) -> bool:
    """Complain of every field that is missing or misshapen; return whether there was none."""
    sound = True
    for field, (holds, wanted) in shapes.items():
        if field not in record:
            if field not in _OPTIONAL:
                complain(field, "is missing: restore it")
                sound = False
        elif not holds(record[field]):
            complain(field, f"is {shorten(record[field])}, has to be {wanted}")
            sound = False
    return sound
