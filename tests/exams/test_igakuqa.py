"""IgakuQA's real files, their irregularities one by one, and what damage to a checkout is answered with."""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medgrpo.errors import MedgrpoError
from medgrpo.exams.igakuqa import _read_number, read_igakuqa


@pytest.fixture(scope="module")
def real(data_dir):
    return {question.id: question for question in read_igakuqa(data_dir / "igakuqa")}


def test_five_years_convert_whole(real):
    assert len(real) == 2000
    assert Counter(q.year for q in real.values()) == dict.fromkeys(range(2018, 2023), 400)
    text_only = Counter(q.year for q in real.values() if q.text_only)
    assert text_only == {2018: 286, 2019: 296, 2020: 287, 2021: 301, 2022: 301}
    assert Counter(len(q.choices) for q in real.values()) == {5: 1984, 0: 12, 6: 2, 8: 2}
    assert Counter(max(map(len, q.answer)) for q in real.values()) == {1: 1702, 2: 243, 3: 55}
    assert len({q.department for q in real.values()}) == 28
    assert {q.exam for q in real.values()} == {"igakuqa"}
    assert list(real)[:2] == ["112A1", "112A2"]
    assert list(real)[-1] == "116F75"


def test_every_number_has_its_point_where_the_sheet_has_it(real):
    # By hand from the questions' own arithmetic: e.g. 116B50 25 dL x 82 mg/dL = 2.05 g, rounded 2.1;
    # 116F74 (30 x 50) / (50 x 80) = 0.375, rounded 0.4; 114F75 900 + 120 + 110 = 1130 kcal, whose sheet
    # prints the first 1 itself, so that the blanks read 130.
    assert {q.id: q.answer for q in real.values() if q.answer_type == "number"} == {
        "112C66": [["26"]],
        "112F84": [["1.2"]],
        "113A75": [["146"]],
        "113F84": [["7.20"]],
        "114C75": [["10.0"]],
        "114D75": [["97"]],
        "114F75": [["130"], ["1130"]],
        "115C75": [["27"]],
        "115F75": [["8.5"]],
        "116B50": [["2.1"]],
        "116C75": [["325"]],
        "116F74": [["0.4"]],
    }
    assert all((q.answer_type == "number") == (not q.choices) for q in real.values())


def test_board_decisions(real):
    excluded = ["112A43", "113A5", "113C34", "113F42", "113F81"]  # 112th, 113th
    excluded += ["114E29", "114F63", "116A34", "116B43", "116C36", "116D64"]
    assert [q.id for q in real.values() if q.scoring == "excluded"] == excluded
    assert [q.id for q in real.values() if q.points == 0] == excluded
    assert [q.id for q in real.values() if q.scoring == "credited"] == ["116A71"]
    assert real["112B30"].answer == [["a"], ["d"]]


def test_the_withdrawn_points_are_those_of_the_announced_totals(real):
    def points(year, required):
        return sum(q.points for q in real.values() if (q.year, q.required) == (year, required))

    # The ministry announced the lines out of these totals: 114E29 and 116B43 had 3 points each.
    assert [points(year, True) for year in range(2018, 2023)] == [200, 200, 197, 200, 197]
    assert [points(year, False) for year in range(2018, 2023)] == [299, 296, 299, 300, 297]


def test_the_question_unsuitable_as_a_required_one_stays_a_normal_question(real):
    assert [q.id for q in real.values() if q.counted_only_if_right] == ["116B6"]
    assert (real["116B6"].scoring, real["116B6"].required, real["116B6"].points) == ("normal", True, 1)


def test_student_accuracy_is_a_share_and_unknown_where_the_files_are_blank(real):
    assert real["114B2"].student_accuracy == 0.995
    assert real["116F74"].student_accuracy == 0.643
    unknown = [q.id for q in real.values() if q.student_accuracy is None]
    assert set(unknown) == {q.id for q in real.values() if q.scoring == "excluded"} | {"115C6", "116A71"}


def test_required_questions_are_100_a_year_and_the_only_ones_with_3_points(real):
    assert Counter(q.year for q in real.values() if q.required) == dict.fromkeys(range(2018, 2023), 100)
    assert all(q.required for q in real.values() if q.points == 3)
    assert {q.points for q in real.values()} == {0, 1, 3}


def test_choices_of_unusual_kinds(real):
    assert "".join(real["113F83"].choices) == "".join(real["115D75"].choices) == "abcdefgh"
    assert "".join(real["113C66"].choices) == "".join(real["116F75"].choices) == "abcdef"
    blank = real["114C11"]
    assert "".join(blank.choices) == "abcde"
    assert [blank.choices[letter] for letter in "abcd"] == [""] * 4
    assert not blank.text_only


def test_contraindicated_choices_in_every_spelling(real):
    assert real["112A27"].contraindicated == ["c", "d", "e"]  # ['cde']
    assert real["115E28"].contraindicated == ["d", "e"]  # ['d', ' e']
    assert real["112B30"].contraindicated == ["e"]
    assert sum(bool(q.contraindicated) for q in real.values()) == 135
    # Full-width letters such as 'ｂ' in 112F66 are read too; none is ever a right answer.
    assert all(set(q.contraindicated) <= set(q.choices) for q in real.values())
    assert not any(set(q.contraindicated) & set(letters) for q in real.values() for letters in q.answer)


def test_years_and_the_data_folder_itself_may_be_given(data_dir, real):
    some = read_igakuqa(data_dir / "igakuqa" / "data", {2022, 2019})
    assert some == [q for q in real.values() if q.year in (2019, 2022)]


def write(path, records):
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records), encoding="utf-8")


@pytest.fixture
def checkout(tmp_path):
    """Make a small checkout: the 112th exam, three questions a block."""
    folder = tmp_path / "data" / "2018"
    folder.mkdir(parents=True)
    for block in "ABCDEF":
        ids = [f"112{block}{i}" for i in (1, 2, 3)]
        write(folder / f"112-{block}.jsonl", [sound(i) for i in ids])
        write(
            folder / f"112-{block}_metadata.jsonl",
            [{"problem_id": i, "category": "救急", "kinki": []} for i in ids],
        )
    return tmp_path


def sound(name):
    return {
        "problem_id": name,
        "problem_text": "正しいのはどれか。",
        "choices": ["安静", "輸液", "手術"],
        "text_only": True,
        "answer": ["a"],
        "points": "1",
    }


def change(checkout, **changes):
    """Change the second question of block C."""
    path = checkout / "data" / "2018" / "112-C.jsonl"
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    records[1].update(changes)
    write(path, records)


def refusal(checkout):
    with pytest.raises(MedgrpoError) as caught:
        read_igakuqa(checkout)
    return str(caught.value)


def convert(checkout, **changes):
    change(checkout, **changes)
    return next(q for q in read_igakuqa(checkout) if q.id == "112C2")


def test_the_small_checkout_is_sound(checkout):
    assert len(read_igakuqa(checkout)) == 18


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"answer": ["f"]}, "answer", "f is not among the choices a, b, c"),
        ({"answer": ["ac"]}, "answer", 'has to be like ["a"], ["a", "c"]'),
        ({"answer": ["A"]}, "answer", "has to be like"),
        ({"answer": ["a or "]}, "answer", "has to be like"),
        ({"answer": ["a", "a"]}, "answer", "sorted list"),
        ({"answer": []}, "answer", "has to be a list of texts"),
        ({"answer": "a"}, "answer", "has to be a list of texts"),
        ({"problem_text": "正しいのはどれか。２つ選べ。"}, "answer", "but the question asks for 2"),
        ({"choices": []}, "problem_text", "has neither choices nor a sheet"),
        ({"choices": ["安静"]}, "choices", "two or more"),
        ({"choices": ["安静", "\u3000"]}, "choices", "one is blank in a question without images"),
        ({"choices": "安静"}, "choices", "has to be a list of texts"),
        ({"choices": ["x"] * 27}, "choices", "26 at most"),
        ({"problem_text": " "}, "problem_text", "not blank"),
        ({"text_only": 1}, "text_only", "true or false"),
        ({"points": ""}, "points", "one digit"),
        ({"points": 1}, "points", "one digit"),
        ({"problem_id": "113C2"}, "problem_id", "has to be like 112C1"),
        ({"problem_id": "112C4"}, "problem_id", "has to be 112C2"),
        ({"problem_id": "112C1"}, "problem_id", "has to be 112C2"),
    ],
)
def test_damage_is_refused_with_file_line_and_field(checkout, changes, field, message):
    change(checkout, **changes)
    said = refusal(checkout)
    assert f"112-C.jsonl, line 2, field {field}: " in said
    assert message in said


def test_missing_fields_are_all_told_at_once(checkout):
    write(checkout / "data" / "2018" / "112-F.jsonl", [{"problem_id": f"112F{i}"} for i in (1, 2, 3)])
    said = refusal(checkout)
    assert "15 problems, the first 10" in said
    assert "112-F.jsonl, line 1, field problem_text: is missing" in said
    assert len(said.splitlines()) == 11


def test_metadata_that_does_not_fit_is_refused(checkout):
    path = checkout / "data" / "2018" / "112-C_metadata.jsonl"
    write(
        path,
        [
            {"problem_id": "112C1", "category": "", "kinki": ["f"]},
            {"problem_id": "112C2", "category": None, "human_accuracy": 90.6},
            {"problem_id": "112C9", "category": "救急", "kinki": []},
        ],
    )
    said = refusal(checkout)
    for wanted in (
        "112-C_metadata.jsonl, line 1, field category: ",
        "112-C_metadata.jsonl, line 2, field category: ",
        "112-C_metadata.jsonl, line 2, field kinki: is missing",
        "112-C_metadata.jsonl, line 2, field human_accuracy: is 90.6, has to be a percentage as text",
        "112-C_metadata.jsonl: has no line for 112C3",
        "112-C_metadata.jsonl, line 3, field problem_id: 112C9 is not in 112-C.jsonl",
    ):
        assert wanted in said


def test_a_cut_line_and_a_missing_block_are_refused(checkout):
    folder = checkout / "data" / "2018"
    (folder / "112-D.jsonl").unlink()
    path = folder / "112-C.jsonl"
    path.write_bytes(path.read_bytes()[:-40])
    said = refusal(checkout)
    assert "112-D.jsonl: is missing: complete the checkout" in said
    assert "112-C.jsonl, line 3: " in said


def test_a_lost_last_line_and_an_empty_file_are_refused(checkout):
    folder = checkout / "data" / "2018"
    write(folder / "112-C.jsonl", [sound("112C1"), sound("112C2")])
    (folder / "112-D.jsonl").write_text("")
    said = refusal(checkout)
    assert "112-C_metadata.jsonl, line 3, field problem_id: 112C3 is not in 112-C.jsonl" in said
    assert "112D1 is not in 112-D.jsonl" in said


def test_wrong_folders_are_refused(checkout, tmp_path):
    for wrong in (
        tmp_path / "nowhere",
        tmp_path / "data" / "2018" / "112-A.jsonl",
        tmp_path / "data" / "2018",
    ):
        with pytest.raises(MedgrpoError, match="give a checkout of IgakuQA"):
            read_igakuqa(wrong)
    with pytest.raises(MedgrpoError, match="no folder for 2017, 2019: there are 2018"):
        read_igakuqa(checkout, {2017, 2018, 2019})


@pytest.mark.parametrize(
    ("answer", "accepted"),
    [
        (["c", "a"], [["a", "c"]]),
        (["ａ"], [["a"]]),
        ([" b "], [["b"]]),
        (["a or c"], [["a"], ["c"]]),
        (["a or b or c"], [["a"], ["b"], ["c"]]),
    ],
)
def test_keys_in_letters(checkout, answer, accepted):
    assert convert(checkout, answer=answer).answer == accepted


@pytest.mark.parametrize(
    ("sheet", "answer", "accepted"),
    [
        ("解答：①.②", "05", [["0.5"]]),
        ("解答：①．②③", "720", [["7.20"]]),
        ("解答: ①②.③ mg/dL", "12.3", [["12.3"]]),
        ("解答：①②③", "007", [["7"]]),
        ("①②の解答：③ではなく、解答：①.②", "21", [["2.1"]]),
        ("解答：2①.②", "34", [["3.4"], ["23.4"]]),
        ("解答：①②", "２６", [["26"]]),
    ],
)
def test_keys_in_digits_follow_the_sheet(checkout, sheet, answer, accepted):
    question = convert(checkout, problem_text=f"求めよ。{sheet}", choices=[], answer=[answer])
    assert question.answer == accepted


@pytest.mark.parametrize("answer", ["4", "212", "21.0", ".21", "-21", "2,1", "a", ""])
def test_keys_that_do_not_fill_the_sheet_are_refused(checkout, answer):
    change(checkout, problem_text="求めよ。解答：①.②", choices=[], answer=[answer])
    assert "112-C.jsonl, line 2, field answer: " in refusal(checkout)


@given(whole=st.integers(1, 3), part=st.integers(0, 3), data=st.data())
def test_a_key_with_its_point_and_without_it_are_the_same(tmp_path_factory, whole, part, data):
    digits = data.draw(st.text("0123456789", min_size=whole + part, max_size=whole + part))
    blanks = "①②③④⑤⑥"
    sheet = blanks[:whole] + ("." + blanks[whole : whole + part] if part else "")
    pointed = digits[:whole] + ("." + digits[whole:] if part else "")
    read = [_read_number([key], f"求めよ。解答：{sheet}g", pytest.fail) for key in (digits, pointed)]
    assert read[0] == read[1]
    assert float(read[0][0][0]) == float(pointed)
