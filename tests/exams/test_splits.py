"""Questions by year, and those that may be trained on."""

import pytest

from medgrpo.errors import MedgrpoError
from medgrpo.exams.question import Question
from medgrpo.exams.splits import parse_years, select_years, tally, trainable


def make(name, year, **changes):
    fields = {"choices": {"a": "一", "b": "二"}, "answer": [["a"]], **changes}
    return Question(id=name, question="どれか。", year=year, **fields)


@pytest.mark.parametrize(
    ("spec", "years"),
    [
        ("2018", {2018}),
        ("2018-2021", {2018, 2019, 2020, 2021}),
        ("2018,2020", {2018, 2020}),
        (" 2018-2019 , 2022 ", {2018, 2019, 2022}),
        ("２０１８－２０１９", {2018, 2019}),
        ("2020-2020", {2020}),
    ],
)
def test_years_are_read(spec, years):
    assert parse_years(spec) == years


@pytest.mark.parametrize("spec", ["", "2021-2018", "2018-", "-2018", "18-21", "all", "2018,,2019", "2018-2019-2020"])
def test_other_years_are_refused(spec):
    with pytest.raises(MedgrpoError, match="write 2018-2021 or 2018,2020"):
        parse_years(spec)


def test_select_years_keeps_the_order_and_refuses_a_year_without_questions():
    questions = [make("3", 2020), make("1", 2018), make("2", 2020)]
    assert [q.id for q in select_years(questions, {2020})] == ["3", "2"]
    with pytest.raises(MedgrpoError, match="no question of 2017, 2019; there are 2018, 2020"):
        select_years(questions, {2017, 2019, 2020})


def test_excluded_and_credited_questions_are_not_trained_on():
    questions = [make("1", 2018), make("2", 2018, scoring="excluded"), make("3", 2018, scoring="credited")]
    kept, dropped = trainable(questions)
    assert [q.id for q in kept] == ["1"]
    assert [q.id for q in dropped] == ["2", "3"]


def test_tally_counts_each_kind_by_year():
    questions = [
        make("1", 2019, answer=[["a", "b"]], text_only=False),
        make("2", 2018, answer=[["a"], ["b"]], scoring="credited"),
        make("3", 2019, choices={}, answer=[["3"]], answer_type="number", scoring="excluded"),
    ]
    assert [row.split() for row in tally(questions).splitlines()] == [
        ["year", "questions", "text-only", "multi", "numeric", "excluded", "credited"],
        ["2018", "1", "1", "0", "0", "0", "1"],
        ["2019", "2", "1", "1", "1", "1", "0"],
        ["all", "3", "2", "1", "1", "1", "1"],
    ]
