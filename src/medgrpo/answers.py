"""What a completion answers, and whether that is right.

The reward and the evaluation both read completions here, so training and scoring cannot disagree. The rule
is what a careful person would read; where that person would hesitate (hedging, a word made of letters, two
numbers) the reading is None, a parse failure, and never some letter. All of it takes linear time.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from medgrpo.nfkc import nfkc
from medgrpo.tags import tag_bodies


@dataclass(frozen=True)
class Answer:
    """One answer: a set of choice letters, or a number.

    `letters` is sorted, lower case, without doubles, and empty for a number. `number` is a plain decimal
    without surplus zeros (`7.20` -> `7.2`, `.4` -> `0.4`, `1,504` -> `1504`), or None for letters.
    """

    letters: tuple[str, ...] = ()
    number: str | None = None

    @property
    def parsed(self) -> list[str] | str:
        """The letters as a list, or the number string: the `parsed` field of samples.jsonl."""
        return list(self.letters) if self.number is None else self.number


def parse_answer(text: str) -> Answer | None:
    """Read the answer in `[ans]...[/ans]` after the last `</think>`; None is a parse failure. Never raises.

    The text is read in NFKC: `parse_answer(text) == parse_answer(unicodedata.normalize("NFKC", text))`. NFKC
    leaves no trace of a circle, so `①27` is 127. A `<think>` or a tag that is never closed is a failure.
    Several tags have to agree; one without a letter or digit (empty, `…`, `選択肢`) echoes the instruction
    and is passed over when another tag answers. More than 32 different wordings, or more than 8,000 characters
    in them (4,000 in one), are a failure: a loop or an essay, in which no answer is looked for.
    """
    wordings = tag_bodies(text)
    if wordings is None or len(wordings) > _MOST_WORDINGS:
        return None
    answer = None
    length = 0
    for wording in wordings:
        # NFKC makes one letter of at most four, so more of them are an essay before they are normalised.
        if len(wording) > 4 * _LONGEST_BODY:
            return None
        body = nfkc(wording)
        length += len(body)
        if length > _LONGEST_BODIES:
            return None
        if _LETTER_OR_DIGIT.search(body):
            read = _read_body(body)
            if read is None or (answer is not None and read != answer):
                return None
            answer = read
    return answer


def is_correct(answer: Answer | None, key: Sequence[Sequence[str]]) -> bool:
    """Whether `answer` equals one of the accepted answers: the same letters, or the same number.

    `key` lists the accepted answers, each a list of letters or a list with one number string, as the field
    `answer` of questions.jsonl does. None (a parse failure) is never correct.
    """
    if answer is None:
        return False
    if answer.number is None:
        return any(set(answer.letters) == {letter.lower() for letter in accepted} for accepted in key)
    number = plain_number(answer.number)
    return number is not None and any(len(accepted) == 1 and plain_number(accepted[0]) == number for accepted in key)


def plain_number(text: str) -> str | None:
    """A number's one plain decimal form (`+1,504.0` -> `1504`, `04` -> `4`, `-0` -> `0`); None if not one.

    Exact: equal strings mean equal numbers. Numbers of more than 40 digits on a side of the point, or with
    exponents of more than two digits, are not read, nor is a text of more than 200 characters.
    """
    text = text.strip()
    match = _NUMBER.fullmatch(nfkc(text).strip()) if len(text) <= _LONGEST_NUMBER else None
    if match is None:
        return None
    plain = format(Decimal(match[0].replace(",", "").replace("−", "-")), "f")
    if "." in plain:
        plain = plain.rstrip("0").rstrip(".")
    return "0" if plain == "-0" else plain.removeprefix("+")


_LETTER_OR_DIGIT = re.compile(r"[A-Za-z0-9]")
_MOST_WORDINGS = 32  # different ones in one completion; beyond it is a loop, not an answer
_LONGEST_BODY = 4000  # characters; beyond it is a loop or an essay, not an answer
_LONGEST_BODIES = 8000  # characters of all wordings together
_LONGEST_NUMBER = 200  # characters
_MOST_QUANTITIES = 64  # numbers in one tag; beyond it is a loop, not an answer

# --- one tag's body ---------------------------------------------------------------------------------------

_DECORATION = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff`$]|\\*\\*|\\\\(?:boxed|text(?:bf)?|mathrm)(?={)")
_PAIRS = dict(["()", "[]", "{}", "<>", "「」", "『』", "【】", "〈〉", "《》", "“”", "‘’", '""', "''"])
_OPEN = f"[{re.escape(''.join(_PAIRS))}]"
_CLOSE = f"[{re.escape(''.join(_PAIRS.values()))}]"

# Words spelt with a to h alone. None is just an order of different letters: `bed` is b, d and e.
_WORDS = (
    "ached|added|badge|baggage|beef|cabbage|cafe|cage|dead|deaf|decade|deed|edge|face|facade|fade|feed|head"
    "|headache|hedge"
)
# Real choices are also spelt BCG, GH, Ca, hCG, IgA: capitals that a set of letters does not have.
_ABBREVIATIONS = "ABG|ADH|AHA|BCG|CABG|CAG|ECG|EEG|FDG|GH|HAE|HCG"
_MIXED_CASE = "(?=[A-J]*[a-j])(?=[a-j]*[A-J])[A-Ja-j]{2,}+"
_WORD = re.compile(rf"(?<![A-Za-z])(?=[A-Za-z]{{2}})(?:(?i:{_WORDS})|{_ABBREVIATIONS}|{_MIXED_CASE})(?![A-Za-z])")

# Words that announce an answer: 答え: b, "the answer is b", 選択肢 b.
_NOUN = r"(?:答え|答|解答|回答|正解|正答|選択肢|\b(?:answer|ans|option|choice)s?\b)"
_LABEL = re.compile(rf"(?:(?:the|correct|final|最終)\s*)*{_NOUN}\s*(?:は|[:=]|\bis\b|\bwould be\b)?\s*:?\s*")
_CONCLUSION = re.compile(rf"{_NOUN}|(?:よって|したがって|従って|ゆえに|以上より|\btherefore\b)[\s、,]*")
_COLON_LETTER = re.compile("[a-j]:")


def _read_body(body: str) -> Answer | None:
    """The answer that one tag's body gives, or None."""
    body = body.strip()
    if len(body) > _LONGEST_BODY:
        return None
    body = _unwrap(_WORD.sub("word", _DECORATION.sub("", body)).lower().strip())
    return _read_answer(body) or _read_conclusion(body)


def _unwrap(body: str) -> str:
    """The body without the brackets or quotes that enclose the whole of it."""
    while len(body) > 1 and _PAIRS.get(body[0]) == body[-1]:
        inside = body[1:-1]
        if body[0] in inside or body[-1] in inside:
            break
        body = inside.strip()
    return body


def _read_answer(body: str) -> Answer | None:
    """The answer that a body states outright, with or without a label before it."""
    if _HEDGE.search(body):
        return None
    label = _LABEL.match(body)
    if label:
        body = _unwrap(body[label.end() :])
    letters = _read_lines(body)
    if letters:
        return Answer(letters=letters)
    number = _read_number(body)
    return None if number is None else Answer(number=number)


def _read_conclusion(body: str) -> Answer | None:
    """The answer that prose ends in: announced (`解答:8.5`), or the one letter with a colon (`…、c: …`).

    An announced number has to stand in the working too, or round one that does: a circled blank before it
    (`解答:①27%`) has become one of its digits under NFKC, and only the working shows that.
    """
    starts = [match.start() for match in _CONCLUSION.finditer(body)]
    if starts:
        answer = _read_answer(_CONCLUSION.sub("答え", body[starts[-1] :], count=1))
        if answer is not None:
            return answer if answer.number is None or _supports(body[: starts[-1]], answer.number) else None
    clause = _find_clause_letter(body)
    if clause is not None and len(set(_LONE_LETTER.findall(body))) == 1:
        return _read_answer(body[clause:])
    return None


def _find_clause_letter(body: str) -> int | None:
    """Where the first clause starts that is a letter with a colon: after 、 。 . or on a line of its own."""
    for letter in _COLON_LETTER.finditer(body):
        before = body[: letter.start()].rstrip()
        if before.endswith(("、", "。", ".")) or "\n" in body[len(before) : letter.start()]:
            return letter.start()
    return None


def _supports(working: str, number: str) -> bool:
    """Whether a working holds the number or one that rounds to it, or no number at all."""
    stated = Decimal(number)
    unit = Decimal(1).scaleb(stated.as_tuple().exponent)
    found = [Decimal(digits.replace(",", "")) for digits in set(_DIGITS.findall(working))]
    if not found or stated in found:
        return True
    if unit < Decimal("1e-6"):
        return False
    return any(each < 10**20 and each.quantize(unit, ROUND_HALF_UP) == stated for each in found)


# --- letters ----------------------------------------------------------------------------------------------

_SEPARATOR = r"(?:[\s,、・·•;/&+|]|\band\b|と|及び|および)"
_LIST = re.compile(
    rf"{_SEPARATOR}*+(?:[a-j]++[.)]?(?:{_SEPARATOR}++|$)|{_OPEN}\s*+[a-j]++\s*+{_CLOSE}[.:]?{_SEPARATOR}*+)++"
)
_LETTER_THEN_BRACKET = re.compile(rf"(?<![a-z])[a-j]\s++{_OPEN}")
_DANGLING = ("and", "と", "及び", "および")
_RUN_WITH_I_OR_J = re.compile(r"[a-j][ij]|[ij][a-j]")  # `igg`, `dic`; no exam has ten choices in one word
_ENDING = re.compile(
    r"(?:です|である|だ|となります|になります|が(?:正解|正しい|適切)(?:です|である)?|を選(?:ぶ|びます|択する))?[。.!]?\Z"
)
# Bacteria and the like, which are spelt as a letter and its choice would be: E. coli, C. difficile.
_SPECIES = (
    r"(?!(?:e\. ?(?:coli|faecalis|faecium|histolytica)|b\. ?(?:cereus|fragilis|pertussis)"
    r"|c\. ?(?:difficile|albicans|botulinum|jejuni|perfringens|pneumoniae|psittaci|tetani|trachomatis)"
    r"|h\. ?(?:influenzae|pylori))\b)"
)
_ITEM = re.compile(
    rf"(?:^|[\s,、;/・]){_SPECIES}(?:([a-j])[.:)]|{_OPEN}([a-j]){_CLOSE}[.:]?)(?![a-z](?:\.|\s++[^0-9]|\s*+$))"
)
_LONE = r"(?<![a-z0-9])(?!a\s+[a-z]{2})[a-j](?![a-z0-9])"  # not the article
_LONE_LETTER = re.compile(_LONE)
# A bare letter before its choice's text; not the rest of a term (b 型肝炎), not a rejection (a 以外).
_SPACED = re.compile(
    rf"([a-j])(?:\s++|[,、]\s*+(?!.*{_LONE}))(?=[^\x00-\x7f])"
    r"(?!型|群|以外|では|じゃ|は[誤正間違不]|も(?![やっ])|か(?![^\x00-\x7f]))"
)
_OR = r"(?:\bor\b|または|又は|もしくは|若しくは|あるいは|或いは|ないし)"
_HEDGE = re.compile(
    rf"{_OR}\s*+{_OPEN}?[a-j](?![a-z0-9])|(?<![a-z0-9])[a-j]{_CLOSE}?\s*+(?:{_OR}|も(?![やっ])|か(?:[もな、。?]|\s*+[a-j(]|$))"
    r"|\b(?:maybe|perhaps)\b|(?<![a-z0-9])[a-j]{_CLOSE}?\s*+の?(?:うちの?)?(?:いずれか|どちらか)"
)


def _read_list(text: str) -> tuple[str, ...]:
    """The letters of a text that holds nothing but letters and separators, in order; else ()."""
    text = _ENDING.sub("", text, count=1).strip()
    if not _LIST.fullmatch(text) or text.endswith(_DANGLING) or _LETTER_THEN_BRACKET.search(text):
        return ()
    letters = text.replace("and", " ")
    if _RUN_WITH_I_OR_J.search(letters):
        return ()
    return tuple(letter for letter in "abcdefghij" if letter in letters)


def _read_line(line: str) -> tuple[str, ...]:
    """The letters of one line: a list, perhaps explained in brackets, or letters with their choices' text."""
    letters = _read_list(line)
    if letters:
        return letters
    items = list(_ITEM.finditer(line))
    if items:
        text = line[items[-1].end() :].strip()
        if items[0].start() > 0 or _read_list(text) or (text and not re.search(r"\w", text)):
            return ()
        return tuple(sorted({item[1] or item[2] for item in items}))
    listed, bracket, explanation = line.partition("(")
    letters = _read_list(listed)
    if letters and bracket:
        return () if _read_list(explanation.rstrip(" )")) else letters
    spaced = _SPACED.match(line)
    return (spaced[1],) if spaced else ()


def _read_lines(body: str) -> tuple[str, ...]:
    """The letters of a body's first lines, when what follows them is a remark that names no other letter."""
    letters: set[str] = set()
    lines = [line.strip().removeprefix("- ") for line in body.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        read = _read_line(line)
        if not read:
            if set(_LONE_LETTER.findall(" ".join(lines[number:]))) - letters:
                return ()
            break
        letters.update(read)
    return tuple(sorted(letters))


# --- numbers ----------------------------------------------------------------------------------------------

_DIGITS = re.compile(r"(?:[1-9][0-9]{0,2}(?:,[0-9]{3})++(?![0-9,])|[0-9]{1,40}+)(?:\.[0-9]{1,40}+)?+|\.[0-9]{1,40}+")
_NUMBER = re.compile(rf"[+\-−]?(?:{_DIGITS.pattern})(?:e[+-]?[0-9]{{1,2}}(?![a-z]))?+(?![0-9])", re.I)
# A unit: letters with an exponent (mg/dl, kg/m2), or a rate's base (/人口1,000対, /1.73m2). 以上 is no unit.
_UNIT = (
    r"(?:\s*+(?!以上|以下|未満|より|から|超|(?<![a-z°/])[a-fij](?![a-z])|or\b|and\b|と(?!な)|±)"
    r"(?:(?:/|人口)\s?[0-9][0-9,.]*+(?=[^\W\d_])|[^\W\d_][23]?(?![0-9])|[%‰°/·・^])){0,24}+"
)
_QUANTITY = re.compile(rf"(?:約|およそ|\babout\s)?\s*({_NUMBER.pattern}){_UNIT}", re.I)
_BETWEEN = re.compile(r"(?:[\s、;。?]|[,.](?![0-9]))*+")
_SUBJECT = re.compile(r"[^0-9\n。.=]{1,80}?(?:は|\bis\s)\s*+(?=[約+\-−.0-9])")
_EXPLANATION = re.compile(r"\([^\n]*\)[。.]?\Z")
_EQUALS = re.compile(r"[=≒≈]")


def _read_number(body: str) -> str | None:
    """The one number of a body, in plain form: with its unit, its subject, or as the end of an equation."""
    subject = _SUBJECT.match(body)
    if subject:
        body = body[subject.end() :]
    number = _read_quantities(body)
    if number is None and "\n" not in body and _EQUALS.search(body):
        number = _read_quantities(_EQUALS.split(body)[-1].strip())
    return number


def _read_quantities(body: str) -> str | None:
    """The number of a text of nothing but equal quantities (`36, 36`, `27.3% (rounded)`), else None."""
    written: set[str] = set()
    position = read = 0
    while position < len(body) and not _EXPLANATION.match(body, position):
        quantity = _QUANTITY.match(body, position)
        read += 1
        if quantity is None or read > _MOST_QUANTITIES:
            return None
        written.add(quantity[1])
        position = _BETWEEN.match(body, quantity.end()).end()
    numbers = {plain_number(number) for number in written}
    return numbers.pop() if len(numbers) == 1 else None
