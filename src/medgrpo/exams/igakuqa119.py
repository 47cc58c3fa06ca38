"""IgakuQA119's files become questions: the 119th Japanese medical licensing exam (2025), 400 questions.

docto-rin/IgakuQA119 (Apache-2.0) publishes one JSON array a block, `119A_json.json` to `119F_json.json`, and the
board's key, `correct_answers.csv`. The texts went through OCR. What it broke is mended where the right reading is
certain, each mended question is named, and whatever else has no five choices in order is refused:

- 119E45, 119E48: the choices stand at the end of the question (`... どれか。 a... b... C... d... e...`); they
  are cut off it. The letters have to come in order, each after a blank.
- 119A22: `d. X d Y` where c is lost: a letter that stands inside its own choice is where that choice starts.
- 119C5, 119C19: the letter itself is lost. Where the cut belongs is written down here (`CUTS`): the law on
  which 119C5 asks lists psychological abuse and neglect apart; in 119C19 the circle of c was read as 0.
- 119C18: the question itself is lost (an English one, of which only the choices are left). It stays, so that the
  exam keeps its 400 questions and their points, with `LOST_TEXT` in its place: nobody can answer it but by luck.
- 119C1, 119D1: the page's heading (`119C`) stands before the question; it is taken off.

119E28 (key `ac`) asks for one vein and the board accepted two: `[["a"], ["c"]]`. The key of 119A75, C74, C75 and
F75 is a number. The files have no department, no contraindicated choices and no student accuracy.
"""

import csv
import io
import re
from pathlib import Path
from string import ascii_lowercase as LETTERS
from typing import Any

from medgrpo.errors import MedgrpoError
from medgrpo.exams.checkout import stays_inside
from medgrpo.exams.igakuqa import BLOCKS, EXAM, REQUIRED_BLOCKS, YEAR_OF_EXAM_0
from medgrpo.exams.jsonl import Complain, Problems, read_array, read_text
from medgrpo.exams.keys import count_asked, plain
from medgrpo.exams.question import Question, find_faults, shorten

NUMBER = 119
YEAR = YEAR_OF_EXAM_0 + NUMBER
KEY_FILE = "correct_answers.csv"
ID_COLUMN, KEY_COLUMN = "問題番号", "解答"

FIRST_CLINICAL = 26
"""In the required blocks the questions from this one on are clinical (臨床実地問題) and give 3 points each."""
LEAST_CHOICES = 5
ALTERNATIVES = frozenset({"119E28"})
"""Questions whose key lists letters that are right each on its own."""
LOST = frozenset({"119C18"})
LOST_TEXT = "（この問題の問題文は配布ファイルに含まれていない。）"
CUTS = {"119C5": ("心理的虐待", "ネグレクト"), "119C19": ("児童虐待に係る通告", "人工妊娠中絶の要件")}

_LABEL = re.compile(r"([a-zA-Z])\s*[.．]\s*")
_HEADING = re.compile(rf"{NUMBER}[{BLOCKS}](?![0-9])")
# A choice's letter behind blanks, and text right behind it. Blanks are looked at from their first one only.
_INLINE = [re.compile(rf"(?<!\s)\s+[{x}{x.upper()}](?=\S)") for x in "abcde"]


def read_igakuqa119(source: str | Path) -> tuple[list[Question], dict[str, str]]:
    """Read a checkout of IgakuQA119 (or a folder with its files): (questions in exam order, what was mended).

    The second part names each mended question and how. Raises `MedgrpoError` with file, line and field of the
    first ten problems, and how many there are.
    """
    folder = Path(source)
    if not folder.is_dir():
        raise MedgrpoError(f"{source}: is no folder: give a checkout of IgakuQA119")
    problems = Problems()
    key_path = _find_file(folder, KEY_FILE, problems)
    keys = _read_key(key_path, problems) if key_path else {}
    questions: list[Question] = []
    mended: dict[str, str] = {}
    asked: set[str] = set()
    read_blocks = ""
    for block in BLOCKS:
        path = _find_file(folder, f"{NUMBER}{block}_json.json", problems)
        if path is None:
            continue
        before = problems.count
        records = read_array(path, problems)
        whole = problems.count == before
        for position, (line, record) in enumerate(records, start=1):
            name = f"{NUMBER}{block}{position}"
            complain = problems.at(path, line)
            if record.get("number") != name:
                found = shorten(record.get("number"))
                complain("number", f"is {found}, has to be {name}: one is lost, doubled or moved")
                whole = False
                break
            asked.add(name)
            if name in keys:
                question = _convert(name, record, keys[name][1], complain, mended)
                questions += [question] if question else []
            elif key_path is not None:
                problems.add(key_path, f"has no answer to {name}: complete the checkout")
        if whole:
            read_blocks += block
        if not records and whole:
            problems.add(path, "holds no question: complete the checkout")
    if key_path is not None:
        for name, (line, _) in keys.items():
            if name not in asked and name[3:4] in read_blocks:
                problems.add(key_path, f"{name} is in no block: complete the checkout", line, ID_COLUMN)
    problems.raise_if_any()
    return questions, mended


def _find_file(folder: Path, name: str, problems: Problems) -> Path | None:
    """Find a file anywhere under the folder: the checkout keeps the questions and the key apart."""
    found = sorted(folder.rglob(name))
    if len(found) != 1:
        what = f"is there {len(found)} times ({found[0]}, {found[1]}): keep one" if found else "is missing: complete it"
        problems.add(folder / name, what)
        return None
    return found[0] if stays_inside(found[0], folder, problems) else None


def _read_key(path: Path, problems: Problems) -> dict[str, tuple[int, str]]:
    """Read the key as id -> (line, key in half-width letters or digits)."""
    rows = csv.DictReader(io.StringIO(read_text(path), newline=""), strict=True)
    keys: dict[str, tuple[int, str]] = {}
    try:
        if not {ID_COLUMN, KEY_COLUMN} <= set(rows.fieldnames or ()):
            raise MedgrpoError(f"{path}, line 1: has no columns {ID_COLUMN} and {KEY_COLUMN}: restore the heading")
        for row in rows:
            name, key = plain(row[ID_COLUMN] or ""), plain(row[KEY_COLUMN] or "")
            if name in keys:
                problems.add(path, f"{name} stands already in line {keys[name][0]}", rows.line_num, ID_COLUMN)
            elif not re.fullmatch("[a-z]+|[0-9]+", key) or list(key) != sorted(set(key)) and not key.isdigit():
                problems.add(path, f"is {shorten(key)}, has to be like a, ac or 36", rows.line_num, KEY_COLUMN)
            keys.setdefault(name, (rows.line_num, key))
    except csv.Error as error:
        problems.add(path, f"not CSV ({error})", rows.line_num)
    return keys


def _convert(
    name: str, record: dict[str, Any], key: str, complain: Complain, mended: dict[str, str]
) -> Question | None:
    text, listed, has_image = record.get("question"), record.get("choices"), record.get("has_image")
    if not isinstance(text, str):
        complain("question", f"is {shorten(text)}, has to be a text")
        return None
    if not isinstance(listed, list) or not all(isinstance(choice, str) for choice in listed):
        complain("choices", f'is {shorten(listed)}, has to be a list of texts such as "a. 安静"')
        return None
    if not isinstance(has_image, bool):
        complain("has_image", f"is {shorten(has_image)}, has to be true or false")
        return None
    text = text.strip()
    heading = _HEADING.match(text)
    if heading:
        text, mended[name] = text[heading.end() :].strip(), f"the heading {heading[0]} taken off the question"
    if name in LOST and not text:
        text, mended[name] = LOST_TEXT, "its question is not in the files: a note stands in its place"
    numeric = not listed and key.isdigit()
    choices: dict[str, str] = {}
    if not numeric:
        if not listed and (inline := _split_choices(text)):
            text, texts = inline
            listed = [f"{letter}. {choice}" for letter, choice in zip("abcde", texts, strict=True)]
            mended[name] = "choices cut off the question"
        choices, how = _read_choices(name, listed)
        if how:
            mended[name] = how
        if list(choices) != list(LETTERS[: len(choices)]) or len(choices) < LEAST_CHOICES:
            complain("choices", f"are {', '.join(choices) or 'missing'}, have to be a to e in order: restore them")
            return None
        if not has_image and not all(choices.values()):
            complain("choices", "one is blank in a question without images: restore its text")
            return None
        if not _key_fits(name, text, key):
            complain("question", f"does not ask for as many choices as its key {key} has: restore one of them")
            return None
    block, position = name[3], int(name[4:])
    required = block in REQUIRED_BLOCKS
    converted = {
        "id": name,
        "question": text,
        "choices": choices,
        "answer": [[letter] for letter in key] if name in ALTERNATIVES else [[key] if numeric else list(key)],
        "answer_type": "number" if numeric else "choice",
        "exam": EXAM,
        "year": YEAR,
        "text_only": not has_image,
        "points": 3 if required and position >= FIRST_CLINICAL else 1,
        "required": required,
    }
    faults = find_faults(converted)
    for field, message in faults:
        complain(field, message)
    return None if faults else Question(**converted)


def _split_choices(text: str) -> tuple[str, list[str]] | None:
    """Part a question from its choices a to e at its end; None where they don't stand there in order.

    Each letter is the first one behind the letter before it. One search a letter, and not one pattern for all five,
    which on a text with many of the letters a to d would try every way to take them.
    """
    first = re.compile(rf"(?<=。){_INLINE[0].pattern}").search(text)
    if first is None:
        return None
    marks = [first]
    for label in _INLINE[1:]:
        mark = label.search(text, marks[-1].end() + 1)
        if mark is None:
            return None
        marks.append(mark)
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    return text[: first.start()], [text[m.end() : end].strip() for m, end in zip(marks, ends, strict=True)]


def _key_fits(name: str, text: str, key: str) -> bool:
    """Whether the key has as many letters as the question asks for (one where it names no number)."""
    return (1 if name in ALTERNATIVES else len(key)) == (count_asked(text) or 1)


def _read_choices(name: str, listed: list[str]) -> tuple[dict[str, str], str | None]:
    """Read the choices letter by letter: (letter -> text, how they were mended or None)."""
    how = None
    choices: dict[str, str] = {}
    for choice in listed:
        label = _LABEL.match(choice)
        if label is None or label[1].lower() in choices:
            return {}, None
        letter, text = label[1].lower(), choice[label.end() :].strip()
        expected = LETTERS[len(choices)]
        inside = re.search(rf"(?<![a-zA-Z]){letter}(?![a-zA-Z])", text)
        first, second = CUTS.get(name, ("", ""))
        if first and re.fullmatch(f"{first}.?{second}", text):
            choices |= {expected: first, LETTERS[len(choices) + 1]: second}
            how = f"{first} and {second} parted"
        elif letter > expected and ord(letter) - ord(expected) == 1 and inside and text.count(letter) == 1:
            choices[expected], choices[letter] = text[: inside.start()].strip(), text[inside.end() :].strip()
            how = f"{expected} and {letter} parted"
        else:
            choices[letter] = text
    return choices, how
