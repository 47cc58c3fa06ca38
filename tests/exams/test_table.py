"""A user's own table becomes questions, or every cell at fault is named."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medgrpo.errors import MedgrpoError
from medgrpo.exams.question import Question, read_questions, write_questions
from medgrpo.exams.table import read_table

DOCS = Path(__file__).resolve().parents[2] / "docs" / "data-formats.md"
HEADING = "id,question,a,b,c,answer,department,year\n"
ROW = "1,どれか。,安静,輸液,手術,b,眼科,2024\n"


def documented(language):
    return re.findall(rf"```{language}\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.S)


def table(tmp_path, text, name="t.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return path


def refusal(path, **options):
    with pytest.raises(MedgrpoError) as caught:
        read_table(path, **options)
    return str(caught.value)


def answer_of(tmp_path, cell, question="どれか。"):
    text = f'id,question,a,b,c,d,answer\n1,{question},一,二,三,四,"{cell}"\n'
    return read_table(table(tmp_path, text))[0].answer


def test_the_documented_table_converts_as_it_says(tmp_path):
    questions = read_table(table(tmp_path, documented("csv")[0]))
    assert [q.answer for q in questions] == [[["a"]], [["b", "d"]], [["a"], ["c"]], [["50"]]]
    assert [len(q.choices) for q in questions] == [5, 5, 3, 0]
    assert [q.answer_type for q in questions] == ["choice"] * 3 + ["number"]
    assert [q.department for q in questions] == ["緑内障", "網膜", "ぶどう膜", "屈折"]
    assert [q.student_accuracy for q in questions] == [0.874, 0.712, None, None]
    assert [q.text_only for q in questions] == [True, True, False, True]
    assert questions[2].question == "前房蓄膿をきたすのはどれか。\n写真を別に示す。"
    assert {(q.exam, q.year) for q in questions} == {("専門医試験", 2024)}
    # What docs/data-formats.md shows as the second one's line of questions.jsonl is what comes out.
    write_questions(tmp_path / "q.jsonl", questions)
    assert json.loads(documented("json")[0]) == json.loads((tmp_path / "q.jsonl").read_text("utf-8").splitlines()[1])
    assert read_questions(tmp_path / "q.jsonl") == questions


def test_the_documented_json_lines_convert_to_the_same_questions(tmp_path):
    questions = read_table(table(tmp_path, documented("jsonl")[0], "t.jsonl"), exam="専門医試験")
    assert questions[0].choices == {"a": "アトロピン", "b": "チモロール", "c": "ラタノプロスト"}
    assert [q.answer for q in questions] == [[["a"]], [["50"]]]
    assert {(q.exam, q.year) for q in questions} == {("専門医試験", 2024)}


@pytest.mark.parametrize(
    ("cell", "accepted"),
    [
        ("b", [["b"]]),
        ("Ｂ", [["b"]]),
        ("ca", [["a", "c"]]),
        ("a,c", [["a", "c"]]),
        ("a、c", [["a", "c"]]),
        (" A C ", [["a", "c"]]),
        ("a or d", [["a"], ["d"]]),
        ("a,b or c,d", [["a", "b"], ["c", "d"]]),
        ("aまたはb", [["a"], ["b"]]),
    ],
)
def test_answers_in_letters(tmp_path, cell, accepted):
    assert answer_of(tmp_path, cell) == accepted


@pytest.mark.parametrize("cell", ["", "aa", "a or", "1", "a/b", "正解", "ア"])
def test_answers_that_could_mean_something_else_are_refused(tmp_path, cell):
    text = f"id,question,a,b,answer\n1,どれか。,一,二,{cell}\n"
    assert "t.csv, line 2, column answer: " in refusal(table(tmp_path, text))


def test_a_key_has_as_many_letters_as_the_question_asks_for(tmp_path):
    assert answer_of(tmp_path, "ad", "どれか。２つ選べ。") == [["a", "d"]]
    text = "id,question,a,b,c,answer\n1,どれか。2つ選べ。,一,二,三,a\n"
    assert "line 2, column answer: is 'a', but the question asks for 2" in refusal(table(tmp_path, text))


@pytest.mark.parametrize("cell", ["2.1", "２．１", " 2.1 "])
def test_a_question_without_choices_has_a_number(tmp_path, cell):
    question = read_table(table(tmp_path, f"id,question,a,b,answer\n1,求めよ。,,,{cell}\n"))[0]
    assert (question.answer, question.answer_type, question.choices) == ([["2.1"]], "number", {})


def test_a_byte_order_mark_windows_lines_and_quotes_do_not_matter(tmp_path):
    text = HEADING + ROW + '2,"A,Bの""どれ""か。",一,二,,a,,\n'
    plain = read_table(table(tmp_path, text, "plain.csv"))
    marked = read_table(table(tmp_path, text.replace("\n", "\r\n"), "marked.csv", "utf-8-sig"))
    assert plain == marked
    assert plain[1].question == 'A,Bの"どれ"か。'
    assert (plain[1].department, plain[1].year, list(plain[1].choices)) == (None, 0, ["a", "b"])


def test_old_line_ends_and_a_long_row_of_choices(tmp_path):
    letters = "abcdefghijklmnopqrstuvwxyz"
    text = f"id,question,{','.join('choice_' + x for x in letters)},answer\r1,どれか。,{','.join(letters)},z\r"
    (question,) = read_table(table(tmp_path, text))
    assert question.choices == dict(zip(letters, letters, strict=True))
    assert question.answer == [["z"]]


def test_defaults_fill_blank_cells_only(tmp_path):
    questions = read_table(table(tmp_path, HEADING + ROW + "2,どれ。,一,二,三,a,,\n"), exam="専門医", year=2020)
    assert [(q.exam, q.year) for q in questions] == [("専門医", 2024), ("専門医", 2020)]


@pytest.mark.parametrize(
    ("encoding", "name", "codec"), [("cp932", "Shift_JIS (cp932)", "CP932"), ("euc_jp", "EUC-JP", "EUC-JP")]
)
def test_an_older_japanese_encoding_is_named_with_what_to_do(tmp_path, encoding, name, codec):
    said = refusal(table(tmp_path, HEADING + "1,正しいのはどれか。,ア,イ,ウ,a,眼科,2024\n", "t.csv", encoding))
    assert f"t.csv, line 2: is not UTF-8 but looks like {name}" in said
    assert f"iconv -f {codec} -t UTF-8" in said


def test_files_that_are_no_csv_are_named(tmp_path):
    (tmp_path / "t.xlsx").write_bytes(b"PK\x03\x04rest")
    assert "is a workbook" in refusal(tmp_path / "t.xlsx")
    assert "is UTF-16" in refusal(table(tmp_path, HEADING, "u.csv", "utf-16"))
    assert "not separated by commas" in refusal(table(tmp_path, HEADING.replace(",", ";")))
    assert "not separated by commas" in refusal(table(tmp_path, HEADING.replace(",", "\t")))
    assert "holds no question" in refusal(table(tmp_path, HEADING + ",,,,,,,\n\n"))
    assert "column id: is missing" in refusal(table(tmp_path, ""))
    assert "cannot be read" in refusal(tmp_path / "nowhere.csv")
    assert "t.csv, line 3: not CSV" in refusal(table(tmp_path, HEADING + ROW + '2,"どれか。,一,二,三,a,,\n'))
    (tmp_path / "bytes.csv").write_bytes(HEADING.encode() + b"1,\xff\xfe\x00,x\n")
    assert "line 2: byte" in refusal(tmp_path / "bytes.csv")


@pytest.mark.parametrize(
    ("heading", "message"),
    [
        ("id,question,a,b,anser", "column anser: is not known: did you mean answer?"),
        ("id,question,a,b,answer,備考", "column 備考: is not known: remove it, or write #"),
        ("id,question,a,b,answer,a", "column a: stands twice"),
        ("id,question,a,b,choice_a,answer", "column a: stands twice"),
        ("id,a,b,answer", "column question: is missing"),
        ("id,question,a,b,answer,", "column '': is not known"),
    ],
)
def test_a_heading_at_fault_is_named(tmp_path, heading, message):
    said = refusal(table(tmp_path, heading + "\n"))
    assert "line 1, column" in said
    assert message in said


@pytest.mark.parametrize(
    ("column", "cell", "message"),
    [
        ("year", "令和6年", "whole number"),
        ("points", "-1", "whole number"),
        ("text_only", "はい", "true or false"),
        ("required", "maybe", "true or false"),
        ("scoring", "void", "normal"),
        ("contraindicated", "1", "letters such as c"),
        ("contraindicated", "z", "not among the choices"),
        ("student_accuracy", "87", "0.874 or 87.4%"),
        ("student_accuracy", "120%", "0.874 or 87.4%"),
        ("counted_only_if_right", "true", "not required"),
        ("b", "", "is blank while c is filled"),
        ("id", "", "has to be a text"),
        ("question", "", "has to be a text"),
        ("answer", "d", "not among the choices"),
    ],
)
def test_a_cell_at_fault_is_named_by_line_and_column(tmp_path, column, cell, message):
    row = {"id": "1", "question": "どれか。", "a": "一", "b": "二", "c": "三", "answer": "a", column: cell}
    text = ",".join(row) + "\n0,よし。,一,二,三,a" + ",," * (len(row) == 7) + "\n"
    text = text.replace(",,\n", ",\n") + ",".join(row.values()) + "\n"
    said = refusal(table(tmp_path, text))
    assert f"t.csv, line 3, column {column}: " in said
    assert message in said


def test_all_problems_are_told_at_once_the_first_ten_and_the_count(tmp_path):
    rows = "".join(f"{i},どれか。,一,二,三,{'z' if i % 2 else 'a'},,\n" for i in range(24))
    said = refusal(table(tmp_path, HEADING + rows))
    assert said.startswith("12 problems, the first 10:")
    assert len(said.splitlines()) == 11


def test_lines_are_counted_through_cells_with_line_breaks(tmp_path):
    text = HEADING + '1,"二行の\n問題",一,二,三,a,,\n2,どれか。,一,二,三,x,,\n3,短い,一\n1,また,一,二,三,a,,\n'
    said = refusal(table(tmp_path, text))
    assert "t.csv, line 4, column answer: " in said
    assert "t.csv, line 5: has 3 cells under 8 names" in said
    assert "t.csv, line 6, column id: '1' stands already in line 2" in said


@pytest.mark.parametrize(
    ("record", "field"),
    [
        ({"id": "1", "question": {"ja": "どれ"}, "answer": "a", "choices": ["一", "二"]}, "question"),
        ({"id": "1", "question": "どれ", "answer": "a", "choices": "一二"}, "choices"),
        ({"id": "1", "question": "どれ", "answer": "a", "choices": {"1": "一"}}, "choices"),
        ({"id": "1", "question": "どれ", "choices": ["一", "二"]}, "answer"),
        ({"id": "1", "question": "どれ", "answer": [["a"]], "choices": ["一", "二"]}, "answer"),
        ({"id": "1", "question": "どれ", "answer": "a", "choices": ["一", "二"], "yaer": 1}, "yaer"),
    ],
)
def test_json_lines_at_fault_are_named_by_field(tmp_path, record, field):
    path = table(tmp_path, json.dumps(record, ensure_ascii=False) + "\n", "t.jsonl")
    assert f"t.jsonl, line 1, field {field}: " in refusal(path)


words = st.text(st.characters(blacklist_categories=["Cs", "Cc", "Z", "P", "S"]), min_size=1, max_size=9)


@given(
    st.lists(st.tuples(words, st.lists(words, min_size=2, max_size=9), st.integers(0, 8)), min_size=1, max_size=5),
    st.sampled_from(["csv", "jsonl"]),
)
def test_what_a_user_writes_is_what_is_read(tmp_path_factory, rows, suffix):
    import csv

    letters = "abcdefghi"
    questions = [
        Question(id=f"q{i}", question=text, choices=dict(zip(letters, choices, strict=False)),
                 answer=[[letters[key % len(choices)]]])
        for i, (text, choices, key) in enumerate(rows)
    ]  # fmt: skip
    path = tmp_path_factory.mktemp("t") / f"t.{suffix}"
    with path.open("w", encoding="utf-8", newline="") as file:
        if suffix == "csv":
            writer = csv.writer(file)
            writer.writerow(["id", "question", *letters, "answer"])
            for q in questions:
                cells = [q.choices.get(letter, "") for letter in letters]
                writer.writerow([q.id, q.question, *cells, q.answer[0][0]])
        else:
            for q in questions:
                record = {"id": q.id, "question": q.question, "choices": q.choices, "answer": q.answer[0][0]}
                file.write(json.dumps(record) + "\n")
    assert read_table(path) == questions
