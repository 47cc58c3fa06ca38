"""IgakuQA119's real files, what OCR did to them, and what damage is answered with."""

import csv
import json
import shutil
from collections import Counter

import pytest

from medgrpo.errors import MedgrpoError
from medgrpo.exams.igakuqa119 import LOST_TEXT, read_igakuqa119
from medgrpo.exams.jsonl import Problems, read_array


@pytest.fixture(scope="module")
def real(data_dir):
    return {question.id: question for question in read_igakuqa119(data_dir / "igakuqa119")[0]}


def test_the_exam_converts_whole(real):
    assert list(real) == [f"119{b}{i}" for b in "ABCDEF" for i in range(1, (51 if b in "BE" else 76))]
    assert Counter(len(q.choices) for q in real.values()) == {5: 396, 0: 4}
    assert Counter(max(map(len, q.answer)) for q in real.values()) == {1: 361, 2: 34, 3: 5}
    assert sum(q.text_only for q in real.values()) == 297
    assert {(q.exam, q.year, q.scoring, q.department) for q in real.values()} == {("igakuqa", 2025, "normal", None)}


def test_points_are_those_the_board_announced_and_the_publisher_gives(real, data_dir):
    assert sum(q.points for q in real.values() if q.required) == 200
    assert sum(q.points for q in real.values() if not q.required) == 300
    path = data_dir / "igakuqa119" / "119_qwen2_5-72b_grading_results.csv"
    with path.open(encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            question = real[row["question_number"]]
            assert question.points == int(row["possible"])
            assert question.required == (row["is_required"] == "True")


def test_numbers_and_the_question_with_two_right_answers(real):
    numbers = {q.id: q.answer for q in real.values() if q.answer_type == "number"}
    assert numbers == {"119A75": [["600"]], "119C74": [["36"]], "119C75": [["27"]], "119F75": [["40"]]}
    assert real["119E28"].answer == [["a"], ["c"]]
    assert real["119A12"].answer == [["c", "e"]]


def test_merged_choices_are_parted(real):
    assert real["119A22"].choices["c"] == "全身性強皮症"
    assert real["119A22"].choices["d"] == "結節性多発動脈炎"
    assert (real["119C5"].choices["d"], real["119C5"].choices["e"]) == ("心理的虐待", "ネグレクト")
    assert real["119C19"].choices["b"] == "児童虐待に係る通告"
    assert real["119C19"].choices["c"] == "人工妊娠中絶の要件"
    assert real["119E45"].choices["e"] == "「周りに同じ症状の人はいますか」"
    assert real["119E45"].question.endswith("適切な問診はどれか。")
    assert list(real["119E48"].choices.values())[2:4] == ["フロセミド", "アドレナリン"]
    assert real["119F16"].choices["e"].startswith("細胞傷害性T細胞")


def test_headings_are_taken_off_and_a_lost_question_says_so(real):
    assert real["119C1"].question.startswith("健康日本21")
    assert real["119D1"].question.startswith("注意欠如")
    assert real["119C18"].question == LOST_TEXT
    assert [q.id for q in real.values() if q.question == LOST_TEXT] == ["119C18"]


@pytest.fixture
def checkout(data_dir, tmp_path):
    """The real files, to be damaged: questions and key in folders of their own, as in the repository."""
    for name, folder in (("119*_json.json", "questions"), ("correct_answers.csv", "results")):
        (tmp_path / folder).mkdir()
        for path in (data_dir / "igakuqa119").glob(name):
            shutil.copyfile(path, tmp_path / folder / path.name)
    return tmp_path


def damage(checkout, name, old, new, count=1):
    path = next(checkout.rglob(name))
    text = path.read_text(encoding="utf-8")
    assert text.count(old) >= 1
    path.write_text(text.replace(old, new, count), encoding="utf-8")


def refusal(checkout):
    with pytest.raises(MedgrpoError) as caught:
        read_igakuqa119(checkout)
    return str(caught.value)


def test_a_checkout_with_folders_reads_the_same_with_a_byte_order_mark(checkout, real):
    path = checkout / "results" / "correct_answers.csv"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_igakuqa119(checkout)[0] == list(real.values())


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("119B_json.json", '"a. 鶏眼', '"鶏眼', "119B_json.json, line 2, field choices: are missing"),
        ("119B_json.json", '"d. 麦粒腫', '"x. 麦粒腫', "line 2, field choices: are a, b, c, x, e"),
        ("119B_json.json", '"c. 水痘 - みずいぼ",', "", "line 2, field choices: are a, b, d, e"),
        ("119B_json.json", '"c. 水痘 - みずいぼ"', '"c. "', "line 2, field choices: one is blank"),
        ("119B_json.json", '"has_image": false', '"has_image": "no"', "line 2, field has_image: "),
        (
            "119B_json.json",
            '"number": "119B2"',
            '"number": "119B3"',
            "line 14, field number: is '119B3', has to be",
        ),
        ("119B_json.json", "疾患とその俗称の組合せで正しいのはどれか。 ", "", "line 2, field question: is ''"),
        ("119B_json.json", "正しいのはどれか。", "正しいのはどれか。2つ選べ。", "as many choices as its key a has"),
        ("119B_json.json", "    ],", "    ]", "119B_json.json, line 12: not JSON (Expecting"),
        ("119C_json.json", "心理的虐待ネグレクト", "心理虐待ネグレクト", "field choices: are a, b, c, d, have"),
        ("correct_answers.csv", "119B1,a", "119B1,f", "119B_json.json, line 2, field answer: f is not among"),
        ("correct_answers.csv", "119B1,a", "119B1,", "field 解答: is ''"),
        ("correct_answers.csv", "119B1,a", "119B1,1", "field answer: 1 is not among"),
        ("correct_answers.csv", "119B1,a\n", "", "has no answer to 119B1"),
        ("correct_answers.csv", "119B1,a", "119B1,a\n119B1,b", "119B1 stands already in line"),
        ("correct_answers.csv", "119B1,a", "119B1,a\n119B99,b", "119B99 is in no block"),
        ("correct_answers.csv", "問題番号,解答", "id,answer", "line 1: has no columns 問題番号 and 解答"),
        ("correct_answers.csv", "119A75,600", "119A75,a", "119A_json.json, line"),
    ],
)
def test_damage_is_refused_with_file_line_and_reason(checkout, file, old, new, message):
    damage(checkout, file, old, new)
    assert message in refusal(checkout)


def test_missing_doubled_and_foreign_files_are_refused(checkout, tmp_path):
    (checkout / "questions" / "119D_json.json").unlink()
    shutil.copyfile(checkout / "questions" / "119A_json.json", checkout / "119A_json.json")
    (checkout / "questions" / "119F_json.json").write_bytes("[]".encode("utf-16"))
    said = refusal(checkout)
    assert "is UTF-16" in said
    (checkout / "questions" / "119F_json.json").write_text("[]")
    said = refusal(checkout)
    assert "119D_json.json: is missing" in said
    assert "119A_json.json: is there 2 times" in said
    assert "119F_json.json: holds no question" in said
    with pytest.raises(MedgrpoError, match="is no folder"):
        read_igakuqa119(checkout / "nowhere")


@pytest.mark.parametrize(
    ("text", "lines", "message"),
    [
        ('[\n{"a": 1},\n\n{"a": 2}\n]\n', [2, 4], None),
        (" [ ] ", [], None),
        ('[{"a": 1}', [1], "',' is missing here"),
        ('{"a": 1}', [], "'[' is missing here"),
        ("", [], "'[' is missing here"),
        ('[{"a": 1},\n]', [1], "line 2: not JSON"),
        ('[{"a": 1}]\n[]', [1], "something follows"),
        ('[\n{"a": 1, "a": 2}]', [], "line 2: not usable JSON (the key 'a' stands twice"),
        ("[1]", [], "not a JSON object"),
        ('[{"a": 1},\n{"a": ', [1], "line 2: not JSON"),
    ],
)
def test_arrays_are_read_with_the_line_of_each_object(tmp_path, text, lines, message):
    path = tmp_path / "a.json"
    path.write_text(text, encoding="utf-8")
    problems = Problems()
    assert [line for line, _ in read_array(path, problems)] == lines
    assert (problems.count == 0) if message is None else message in problems.first[0]


def test_whole_arrays_read_as_json_reads_them(data_dir):
    path = data_dir / "igakuqa119" / "119A_json.json"
    assert [record for _, record in read_array(path, Problems())] == json.loads(path.read_text(encoding="utf-8"))
