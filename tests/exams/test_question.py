"""`questions.jsonl`: what is read back is what was written, and every damage is named with its place."""

import json
import os
import re
import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medgrpo.errors import MedgrpoError
from medgrpo.exams.question import FIELDS, Question, find_faults, read_questions, write_questions

GOOD = {
    "id": "116A1",
    "question": "最も適切なのはどれか。",
    "choices": {"a": "安静", "b": "輸液", "c": "手術"},
    "answer": [["a", "c"]],
    "answer_type": "choice",
    "scoring": "normal",
    "exam": "mock",
    "year": 2022,
    "department": "救急",
    "text_only": True,
    "points": 1,
    "required": False,
    "contraindicated": ["b"],
    "counted_only_if_right": False,
    "student_accuracy": 0.874,
}


def write_lines(path, *records):
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records), encoding="utf-8")
    return path


def test_fields_stand_in_the_published_order():
    assert list(GOOD) == list(FIELDS)
    assert list(Question.from_json(GOOD).to_json()) == list(FIELDS)


def test_a_file_from_before_the_later_fields_is_read_with_their_defaults(tmp_path):
    old = {name: value for name, value in GOOD.items() if name not in ("counted_only_if_right", "student_accuracy")}
    (question,) = read_questions(write_lines(tmp_path / "old.jsonl", old))
    assert (question.counted_only_if_right, question.student_accuracy) == (False, None)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"student_accuracy": 87.4}, "student_accuracy"),
        ({"student_accuracy": "0.8"}, "student_accuracy"),
        ({"student_accuracy": True}, "student_accuracy"),
        ({"student_accuracy": float("nan")}, "student_accuracy"),
        ({"counted_only_if_right": 1}, "counted_only_if_right"),
        ({"counted_only_if_right": True}, "counted_only_if_right"),  # of a question that is not required
    ],
)
def test_the_later_fields_are_checked_too(change, field):
    assert [name for name, _ in find_faults({**GOOD, **change})] == [field]
    assert find_faults({**GOOD, "required": True, "counted_only_if_right": True, "student_accuracy": 1}) == []


texts = st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda t: t.strip())


@st.composite
def questions(draw):
    letters = string.ascii_lowercase[: draw(st.sampled_from([0, 2, 5, 6, 8, 26]))]
    if letters:
        sets = st.sets(st.sampled_from(letters), min_size=1).map(sorted)
        answer = draw(st.lists(sets, min_size=1, max_size=3, unique_by=tuple))
    else:
        answer = [[draw(st.from_regex(r"-?[0-9]{1,4}(\.[0-9]{1,3})?", fullmatch=True))]]
    return Question(
        id=draw(texts.map(str.strip)),
        question=draw(texts),
        choices={letter: draw(st.text(st.characters(codec="utf-8"))) for letter in letters},
        answer=answer,
        answer_type="choice" if letters else "number",
        scoring=draw(st.sampled_from(["normal", "excluded", "credited"])),
        exam=draw(st.text(st.characters(codec="utf-8"))),
        year=draw(st.integers(0, 3000)),
        department=draw(st.none() | texts),
        text_only=draw(st.booleans()),
        points=draw(st.integers(0, 3)),
        required=draw(st.booleans()),
        contraindicated=sorted(draw(st.sets(st.sampled_from(letters)))) if letters else [],
        student_accuracy=draw(st.none() | st.floats(0, 1)),
    )


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(questions(), min_size=1, max_size=4, unique_by=lambda q: q.id))
def test_written_questions_read_back_the_same(tmp_path_factory, some):
    # Among the texts are U+2028, U+0085 and vertical tabs, at which str.splitlines would cut a line in two.
    path = tmp_path_factory.mktemp("round") / "q.jsonl"
    write_questions(path, some)
    assert read_questions(path) == some


def test_bom_blank_lines_and_windows_line_ends_are_read(tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(GOOD).encode() + b"\r\n\r\n")
    assert [q.id for q in read_questions(path)] == ["116A1"]


def test_later_fields_have_defaults(tmp_path):
    path = write_lines(tmp_path / "q.jsonl", {k: GOOD[k] for k in ("id", "question", "choices", "answer")})
    (question,) = read_questions(path)
    assert (question.scoring, question.text_only, question.points) == ("normal", True, 1)
    assert question.contraindicated == []


DAMAGE = [
    ({"id": 116}, "id", "is 116"),
    ({"id": " 116A1"}, "id", "blanks"),
    ({"question": "\u3000"}, "question", "not blank"),
    ({"choices": {"a": "一"}}, "choices", "two or more"),
    ({"choices": {"b": "一", "a": "二"}}, "choices", "in that order"),
    ({"choices": {"a": "一", "B": "二"}}, "choices", "in that order"),
    ({"choices": ["一", "二"]}, "choices", "two or more"),
    ({"choices": {}}, "choices", '"answer_type": "number"'),
    ({"answer": "a"}, "answer", "list of accepted answers"),
    ({"answer": ["a"]}, "answer", "list of accepted answers"),
    ({"answer": []}, "answer", "list of accepted answers"),
    ({"answer": [[]]}, "answer", "list of accepted answers"),
    ({"answer": [["c", "a"]]}, "answer", "sorted"),
    ({"answer": [["a", "a"]]}, "answer", "sorted"),
    ({"answer": [["a"], ["a"]]}, "answer", "list of accepted answers"),
    ({"answer": [["a", "e"], ["f"]]}, "answer", "e, f is not among the choices a, b, c"),
    ({"answer_type": "multiple"}, "answer_type", '"choice" or "number"'),
    ({"answer_type": "number"}, "choices", "none"),
    ({"answer_type": "number", "choices": {}}, "answer", "is not one number"),
    ({"answer_type": "number", "choices": {}, "answer": [["２.1"]]}, "answer", "is not one number"),
    ({"scoring": None}, "scoring", '"excluded"'),
    ({"year": "2022"}, "year", "whole number"),
    ({"year": True}, "year", "whole number"),
    ({"points": 1.5}, "points", "whole number"),
    ({"text_only": "false"}, "text_only", "true or false"),
    ({"department": ""}, "department", "or null"),
    ({"contraindicated": ["cde"]}, "contraindicated", "sorted list of letters"),
    ({"contraindicated": ["e"]}, "contraindicated", "not among the choices"),
    ({"contraindcated": ["b"]}, "contraindcated", "did you mean contraindicated?"),
    ({"深": 1}, "深", "unknown field"),
]


@pytest.mark.parametrize(("change", "field", "message"), DAMAGE)
def test_a_field_at_fault_is_named_with_its_line(tmp_path, change, field, message):
    path = write_lines(tmp_path / "q.jsonl", GOOD, {**GOOD, "id": "116A2", **change})
    with pytest.raises(MedgrpoError) as caught:
        read_questions(path)
    assert f"line 2, field {field}: " in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize("field", ["id", "question", "choices", "answer"])
def test_a_missing_field_is_named(tmp_path, field):
    path = write_lines(tmp_path / "q.jsonl", {k: v for k, v in GOOD.items() if k != field})
    with pytest.raises(MedgrpoError, match=f"line 1, field {field}: is missing"):
        read_questions(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"id": "116A2", ', "line 2: not JSON"),
        (b"[]", "line 2: not a JSON object"),
        (b'{"id": "\xff"}', "line 2: byte 9 is not UTF-8"),
        (rb'{"id": "\ud83d"}', r"line 2: .*ud83d is half a character"),
        (b'{"choices": {"a": "x", "a": "y"}}', "line 2: .*'a' stands twice"),
        (b'{"points": ' + b"9" * 5000 + b"}", "line 2: not usable JSON"),
        (b"[" * 100_000, "line 2: not usable JSON"),
    ],
)
def test_a_broken_line_is_one_readable_line(tmp_path, line, message):
    path = tmp_path / "q.jsonl"
    path.write_bytes(json.dumps(GOOD).encode() + b"\n" + line + b"\n")
    with pytest.raises(MedgrpoError, match=message) as caught:
        read_questions(path)
    assert "\n" not in str(caught.value)


def test_all_problems_are_counted_and_ten_are_shown(tmp_path):
    path = write_lines(tmp_path / "q.jsonl", *({**GOOD, "id": f"116A{i}", "year": "x"} for i in range(13)))
    with pytest.raises(MedgrpoError) as caught:
        read_questions(path)
    heading, *rest = str(caught.value).splitlines()
    assert "13 problems" in heading
    assert [int(re.search(r"line (\d+), field year", row)[1]) for row in rest] == list(range(1, 11))


def test_doubled_ids_are_refused_with_both_lines(tmp_path):
    path = write_lines(tmp_path / "q.jsonl", GOOD, {**GOOD, "id": "116A2"}, GOOD)
    with pytest.raises(MedgrpoError, match="line 3, field id: '116A1' stands already in line 1"):
        read_questions(path)


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_refused(tmp_path, content):
    path = tmp_path / "q.jsonl"
    path.write_bytes(content)
    with pytest.raises(MedgrpoError, match="q.jsonl: holds no question"):
        read_questions(path)


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(MedgrpoError, match="nowhere.jsonl: cannot be read"):
        read_questions(tmp_path / "nowhere.jsonl")
    with pytest.raises(MedgrpoError, match="cannot be read"):
        read_questions(tmp_path)
    utf16 = tmp_path / "utf16.jsonl"
    utf16.write_text(json.dumps(GOOD), encoding="utf-16")
    with pytest.raises(MedgrpoError, match="is UTF-16: save it as UTF-8, or run: iconv -f UTF-16 -t UTF-8"):
        read_questions(utf16)


def test_from_json_names_every_fault():
    with pytest.raises(MedgrpoError, match="question '116A1': field year: .*; field points: "):
        Question.from_json({**GOOD, "year": None, "points": "1"})


def test_refused_questions_leave_the_old_file_and_no_scraps(tmp_path):
    path = tmp_path / "q.jsonl"
    question = Question.from_json(GOOD)
    write_questions(path, [question])
    before = path.read_bytes()
    wrong = Question(id="x", question="？", choices={"a": "一", "b": "二"}, answer=[["z"]])
    for refused in ([question, question], [wrong], []):
        with pytest.raises(MedgrpoError):
            write_questions(path, refused)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["q.jsonl"]


def test_writing_makes_folders_and_refuses_a_folder(tmp_path):
    question = Question.from_json(GOOD)
    write_questions(tmp_path / "new" / "folder" / "q.jsonl", [question])
    assert read_questions(tmp_path / "new" / "folder" / "q.jsonl") == [question]
    with pytest.raises(MedgrpoError, match="cannot be written"):
        write_questions(tmp_path / "new", [question])
    assert sorted(os.listdir(tmp_path)) == ["new"]


@given(
    st.dictionaries(
        st.sampled_from([*FIELDS, "extra"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=1), inner, max_size=3),
            max_leaves=6,
        ),
    )
)
def test_no_json_object_makes_the_check_itself_fail(changes):
    for record in (changes, {**GOOD, **changes}):
        if not find_faults(record):
            assert Question.from_json(record).to_json()["id"] == record["id"]


JAPANESE = ("眼圧を上昇させる薬剤はどれか。", "前房蓄膿をきたすのはどれか。")


@pytest.mark.parametrize(
    ("encoding", "name", "codec"), [("cp932", "Shift_JIS (cp932)", "CP932"), ("euc_jp", "EUC-JP", "EUC-JP")]
)
def test_an_older_japanese_encoding_is_told_once_with_the_command(tmp_path, encoding, name, codec):
    path = tmp_path / "a file.jsonl"
    path.write_bytes("".join(f'{{"id": "{n}", "question": "{t}"}}\n' for n, t in enumerate(JAPANESE)).encode(encoding))
    with pytest.raises(MedgrpoError) as caught:
        read_questions(path)
    said = str(caught.value)
    assert f"a file.jsonl, line 1: is not UTF-8 but looks like {name}" in said
    assert said.endswith(f"run: iconv -f {codec} -t UTF-8 '{path}' > utf8.jsonl")
    assert "\n" not in said


@pytest.mark.parametrize("cut", [b"\xff", b"\xe3\x81", b"\x82"])
def test_one_damaged_place_in_utf8_is_not_taken_for_another_encoding(tmp_path, cut):
    path = tmp_path / "q.jsonl"
    path.write_bytes(f'{{"id": "1", "question": "{JAPANESE[0]}'.encode() + cut + b'"}\n')
    with pytest.raises(MedgrpoError, match="line 1: byte 71 is not UTF-8"):
        read_questions(path)
