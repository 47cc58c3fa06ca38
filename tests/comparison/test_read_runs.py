import json
from dataclasses import asdict

import pytest

from medgrpo.comparison.read import read_runs
from medgrpo.comparison.request import METHODS, ComparisonRequest
from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.samples import write_run
from medgrpo.exams.question import Question
from medgrpo.statistics import MCNEMAR_METHODS


@pytest.fixture
def folder_of(tmp_path, make_run):
    """Write a scored run and return its folder."""

    def write(name: str, outcomes: str = "1010") -> str:
        run = make_run(outcomes)
        write_run(tmp_path / name, run.samples, run.run_info)
        return str(tmp_path / name)

    return write


@pytest.fixture
def read(tmp_path):
    """Read the runs of a request."""
    return lambda base, *runs, **more: read_runs(
        ComparisonRequest(base=base, runs=list(runs), out=str(tmp_path / "out"), **more)
    )


@pytest.fixture
def make_questions_file(tmp_path):
    """Write questions with these ids and return the file."""

    def make(*ids: str) -> str:
        questions = [Question(id=name, question="問", choices={"a": "1", "b": "2"}, answer=[["a"]]) for name in ids]
        path = tmp_path / f"{len(ids)}.jsonl"
        path.write_text("".join(json.dumps(asdict(q)) + "\n" for q in questions), encoding="utf-8")
        return str(path)

    return make


def test_names_are_the_shortest_that_tell_the_runs_apart(folder_of, read):
    folders = [folder_of(name) for name in ("base", "a/grpo/after", "a/gspo/after", "b/gspo/after")]
    read_back = read(*folders)
    assert list(read_back.runs) == ["base", "grpo/after", "a/gspo/after", "b/gspo/after"]
    assert read_back.base == "base"
    assert read_back.folders["grpo/after"] == folders[1]


def test_a_name_can_be_given(folder_of, read):
    base, first, second = (folder_of(name) for name in ("base", "x/after", "odd=name"))
    assert list(read(f"Base 80B={base}", f"GRPO={first}", second).runs) == ["Base 80B", "GRPO", "odd=name"]


def test_groups_bring_their_runs_and_may_repeat_them(folder_of, read):
    base, *seeds = (folder_of(name) for name in ("base", "s0", "s1", "s2"))
    for runs in ((), (seeds[1],), seeds):
        found = read(base, *runs, group=[f"GRPO={','.join(seeds)}"])
        assert sorted(found.runs) == ["base", "s0", "s1", "s2"]
        assert found.groups == {"GRPO": ["s0", "s1", "s2"]}


def test_questions_are_read_where_given(folder_of, read, make_questions_file):
    questions = make_questions_file("q0", "q1", "q2", "q3", "q4")
    assert len(read(folder_of("base"), folder_of("x"), questions=questions).questions) == 5


def test_questions_of_another_exam_are_refused(folder_of, read, make_questions_file):
    base, run = folder_of("base"), folder_of("x")
    with pytest.raises(MedgrpoError, match=r"mini_exam: lacks q0, q1, q2, q3 \(4\), which base answered"):
        read(base, run, questions="mini_exam")
    with pytest.raises(MedgrpoError, match=r"lacks q3 \(1\)"):
        read(base, run, questions=make_questions_file("q0", "q1", "q2"))


def test_one_run_need_not_be_a_list(folder_of, tmp_path):
    """As a YAML file has it: `runs: A=runs/x`."""
    base, run = folder_of("base"), folder_of("x")
    found = read_runs(ComparisonRequest(base=base, runs=f"A={run}", out=str(tmp_path / "out")))
    assert list(found.runs) == ["base", "A"]
    found = read_runs(ComparisonRequest(base=base, group=f"G={run},{folder_of('y')}", out=str(tmp_path / "out")))
    assert found.groups == {"G": ["x", "y"]}


def test_bad_requests_say_what_to_do(folder_of, read):
    base, run = folder_of("base"), folder_of("x")
    for arguments, more, reason in (
        ((base,), {}, "name at least one run"),
        ((None, run), {}, "no base is given: name its folder first .*YAML"),
        ((base, run, run), {}, "is given twice"),
        ((base, base), {}, "is given twice"),
        ((base, f"{run}/../x", run), {}, "is given twice"),
        ((base, f"A={run}"), {"group": ["no folders"]}, "has to be NAME=DIR,DIR"),
        ((base, run), {"group": ["G="]}, "has to be NAME=DIR,DIR"),
        ((base, run), {"group": [f"G={run}", f"G={run}"]}, "given twice: name all its folders"),
        ((f"A={base}", f"A={run}"), {}, "two runs are called 'A'"),
        ((base, f"={run}"), {}, "has to be a folder, or NAME=DIR"),
        ((base, "/nowhere/run"), {}, "/nowhere/run: no such folder"),
    ):
        with pytest.raises(MedgrpoError, match=reason):
            read(*arguments, **more)


def rewrite(folder, change):
    """Change the lines of a run's samples."""
    path = f"{folder}/samples.jsonl"
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in change(rows))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda rows: [{k: v for k, v in row.items() if k != "id"} for row in rows[:1]],
            "line 1, field id: is missing",
        ),
        (lambda rows: [*rows, rows[0]], r"line 5, field id: 'q0' stands twice: score the run again"),
        (lambda rows: [], "holds no sample: score the run again"),
        (lambda rows: [{**rows[0], "score": 1}], "field score: unknown field"),
    ],
)
def test_damaged_runs_are_refused(folder_of, read, change, reason):
    base, run = folder_of("base"), folder_of("x")
    rewrite(run, change)
    with pytest.raises(MedgrpoError, match=reason):
        read(base, run)


def test_an_older_schema_is_refused(folder_of, read, tmp_path):
    base, run = folder_of("base"), folder_of("x")
    info = json.loads((tmp_path / "x" / "run.json").read_text())
    (tmp_path / "x" / "run.json").write_text(json.dumps({**info, "schema": 0}))
    with pytest.raises(MedgrpoError, match=r"has schema 0, this medgrpo reads 1: score the completions again"):
        read(base, run)
    (tmp_path / "x" / "run.json").unlink()
    with pytest.raises(MedgrpoError, match="no run.json: not a scored run, or one that was interrupted"):
        read(base, run)


def test_the_methods_offered_are_those_there_are():
    assert METHODS == MCNEMAR_METHODS
