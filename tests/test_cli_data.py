"""`medgrpo data ...` as a person types it: what it prints, where, and with which status."""

import json
import subprocess
import sys

import pytest

from medgrpo.cli import main

QUESTION = {"id": "1", "question": "どれか。", "choices": {"a": "一", "b": "二"}, "answer": [["a"]]}


def write(path, *records):
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records), encoding="utf-8")
    return str(path)


def run(capsys, *argv):
    try:
        status = main(argv)
    except SystemExit as stop:
        status = stop.code
    return status, *capsys.readouterr()


def test_igakuqa_converts_and_sums_up(capsys, data_dir, tmp_path):
    out = tmp_path / "new" / "q.jsonl"
    status, said, errors = run(
        capsys, "data", "igakuqa", str(data_dir / "igakuqa"), "--out", str(out), "--years", "2018,2022"
    )
    assert (status, errors) == (0, "")
    assert [row.split() for row in said.splitlines()[1:4]] == [
        ["2018", "400", "286", "64", "2", "1", "0"],
        ["2022", "400", "301", "61", "3", "4", "1"],
        ["all", "800", "587", "125", "5", "5", "1"],
    ]
    assert f"wrote 800 questions to {out}" in said
    assert len(out.read_text(encoding="utf-8").splitlines()) == 800


def test_check_names_the_one_question_set_again_and_a_slipped_one(capsys, data_dir, tmp_path):
    train, evaluation = str(tmp_path / "train.jsonl"), str(tmp_path / "eval.jsonl")
    source = str(data_dir / "igakuqa")
    assert run(capsys, "data", "igakuqa", source, "--out", train, "--years", "2019")[0] == 0
    assert run(capsys, "data", "igakuqa", source, "--out", evaluation, "--years", "2022")[0] == 0
    status, said, errors = run(capsys, "data", "check", train, evaluation)
    assert status == 1
    assert "leaks by text: 0\n" in said
    assert "leaks by near-duplicate: 1: 113E2 (evaluation: 116B10, 0.84 alike)\n" in said
    assert "1 by near-duplicate (113E2" in errors
    status, said, errors = run(capsys, "data", "check", train, evaluation, "--allow-near-duplicates")
    assert (status, errors) == (0, "")
    assert "leaks by near-duplicate (allowed): 1: 113E2" in said

    with open(evaluation, encoding="utf-8") as file, open(train, "a", encoding="utf-8") as slipped:
        slipped.write(file.readlines()[7])
    status, said, errors = run(capsys, "data", "check", train, evaluation)
    assert status == 1
    for by in ("id", "exam and year", "text"):
        assert f"leaks by {by}: 1: 116A8\n" in said
    assert "116A8" in errors
    assert errors.count("\n") == 1


def test_igakuqa119_converts_and_names_what_it_mended(capsys, data_dir, tmp_path):
    out = tmp_path / "2025.jsonl"
    status, said, errors = run(capsys, "data", "igakuqa119", str(data_dir / "igakuqa119"), "--out", str(out))
    assert (status, errors) == (0, "")
    assert said.splitlines()[1].split() == ["2025", "400", "297", "39", "4", "0", "0"]
    mended = [line.split()[1].rstrip(":") for line in said.splitlines() if line.startswith("mended")]
    assert mended == ["119A22", "119C1", "119C5", "119C18", "119C19", "119D1", "119E45", "119E48"]
    assert len(out.read_text(encoding="utf-8").splitlines()) == 400


def test_a_table_of_ones_own_converts_with_departments(capsys, tmp_path):
    table, out = tmp_path / "t.csv", tmp_path / "t.jsonl"
    rows = "".join(f"{i},どれか。,一,二,a,{'眼科' if i % 3 else '内科'}\n" for i in range(9))
    table.write_text("id,question,a,b,answer,department\n" + rows, encoding="utf-8-sig")
    argv = ["data", "table", str(table), "--out", str(out), "--exam", "専門医", "--year", "2024"]
    status, said, errors = run(capsys, *argv)
    assert (status, errors) == (0, "")
    assert [line.split() for line in said.splitlines()[-3:-1]] == [["6", "眼科"], ["3", "内科"]]
    assert json.loads(out.read_text(encoding="utf-8").splitlines()[0])["year"] == 2024
    table.write_text("id,question,a,b,answer\n1,どれか。,一,二,z\n", encoding="utf-8")
    out.unlink()
    status, said, errors = run(capsys, *argv)
    assert (status, said) == (2, "")
    assert errors.startswith(f"medgrpo data table: {table}, line 2, column answer: ")
    assert not out.exists()


def test_check_shows_twenty_ids_and_how_many_more(capsys, tmp_path):
    path = write(tmp_path / "q.jsonl", *({**QUESTION, "id": str(i), "question": f"問{i}"} for i in range(25)))
    status, said, _ = run(capsys, "data", "check", path, path)
    assert status == 1
    assert "leaks by id: 25: 0, 1, " in said
    assert "18, 19, and 5 more\n" in said
    assert "leaks by exam and year: 0\n" in said


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "required: VERB"),
        (["data"], "required: VERB"),
        (["data", "chek", "a", "b"], "chek"),
        (["data", "check", "a"], "EVAL.jsonl"),
        (["data", "igakuqa", "folder"], "--out"),
        (["data", "igakuqa", "folder", "--ou", "x"], "--out"),
        (["data", "igakuqa", "nowhere", "--out", "x"], "nowhere: is no folder"),
        (["data", "igakuqa", "nowhere", "--out", "x", "--years", "2021-2018"], "2018-2021 or 2018,2020"),
        (["data", "igakuqa119", "nowhere", "--out", "x"], "nowhere: is no folder"),
        (["data", "table", "nowhere.csv", "--out", "x"], "nowhere.csv: cannot be read"),
        (["data", "table", "t.csv", "--out", "x", "--year", "令和"], "--year"),
        (["data", "table", "t.csv", "--out", "./t.csv"], "is the table itself"),
        (["data", "check", "nowhere.jsonl", "x"], "nowhere.jsonl: cannot be read"),
    ],
)
def test_bad_use_is_one_line_and_status_2(capsys, tmp_path, monkeypatch, argv, message):
    monkeypatch.chdir(tmp_path)
    status, said, errors = run(capsys, *argv)
    assert (status, said) == (2, "")
    assert errors.startswith("medgrpo")
    assert message in errors
    assert errors.count("\n") == 1


def test_a_broken_questions_file_is_named_with_line_and_field(capsys, tmp_path):
    good = write(tmp_path / "good.jsonl", QUESTION)
    bad = write(tmp_path / "bad.jsonl", QUESTION, {**QUESTION, "id": "2", "anser": 1})
    status, _, errors = run(capsys, "data", "check", good, bad)
    assert status == 2
    assert errors == f"medgrpo data check: {bad}, line 2, field anser: unknown field: did you mean answer?\n"


def test_a_damaged_checkout_writes_nothing(capsys, tmp_path):
    (tmp_path / "data" / "2018").mkdir(parents=True)
    out = tmp_path / "q.jsonl"
    status, _, errors = run(capsys, "data", "igakuqa", str(tmp_path), "--out", str(out))
    assert status == 2
    assert "112-A.jsonl: is missing" in errors
    assert not out.exists()


@pytest.mark.parametrize("verb", ["data igakuqa", "data igakuqa119", "data table", "data check", "data", ""])
def test_help_has_an_example(capsys, verb):
    status, said, _ = run(capsys, *verb.split(), "--help")
    assert status == 0
    assert f"example: medgrpo {verb}".rstrip() in " ".join(said.split())


def test_help_loads_nothing_heavy():
    code = (
        "import sys; from medgrpo.cli import build_parser; build_parser().format_help(); "
        "print(sorted({'torch', 'numpy', 'transformers', 'trl', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_command_itself_ends_with_the_status_and_no_traceback(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "medgrpo.cli", "data", "check", str(tmp_path), "x"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_help_keeps_names_as_they_are_written(capsys):
    status, said, _ = run(capsys, "data", "igakuqa", "--help")
    assert status == 0
    assert "Convert a checkout of IgakuQA's files into questions." in said
