import json
from dataclasses import asdict, replace

import pytest

from medgrpo.errors import MedgrpoError
from medgrpo.evaluation import samples as samples_module
from medgrpo.evaluation.samples import SCHEMA, Run, Sample, pair_outcomes, read_run, write_run

SAMPLE = Sample(
    id="116A1",
    completion="[ans]a[/ans]",
    parsed=["a"],
    parse_failure=False,
    correct=True,
    contraindicated_chosen=[],
    exam="医師国家試験",
    year=2022,
    department=None,
    text_only=True,
    points=1,
    required=False,
    scoring="normal",
)
SAMPLES = [SAMPLE, replace(SAMPLE, id="116A2", correct=False), replace(SAMPLE, id="116A3", parsed="2.1")]


def test_a_run_reads_back_as_written(tmp_path):
    written = write_run(tmp_path / "a" / "b", SAMPLES, {"model": "模型", "sampling": {"temperature": 0}})
    assert read_run(tmp_path / "a" / "b") == written
    assert written.samples == SAMPLES
    assert written.run_info == {"schema": SCHEMA, "model": "模型", "sampling": {"temperature": 0}}
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == ["run.json", "samples.jsonl"]


def test_an_interrupted_write_is_no_run(tmp_path, monkeypatch):
    write_run(tmp_path, SAMPLES, {"model": "old"})

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(samples_module, "write_objects", stopped)
    with pytest.raises(KeyboardInterrupt):
        write_run(tmp_path, SAMPLES[:1], {"model": "new"})
    with pytest.raises(MedgrpoError, match=r"no run\.json.*interrupted"):
        read_run(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["samples.jsonl"]


def test_what_cannot_be_written_is_refused_and_the_old_run_stays(tmp_path):
    write_run(tmp_path, SAMPLES, {"model": "old"})
    for samples, run_info, message in [
        ([], {}, "no samples"),
        ([SAMPLE, SAMPLE], {}, "116A1"),
        (SAMPLES, {"loss": float("nan")}, "not JSON"),
        (SAMPLES, {"path": tmp_path}, "not JSON"),
    ]:
        with pytest.raises(MedgrpoError, match=message):
            write_run(tmp_path, samples, run_info)
    assert read_run(tmp_path).run_info["model"] == "old"
    (tmp_path / "file").write_text("")
    with pytest.raises(MedgrpoError, match="cannot be written"):
        write_run(tmp_path / "file", SAMPLES, {})


@pytest.mark.parametrize(
    ("run_json", "message"),
    [
        ('{"model": "x"}', "no schema.*medgrpo score"),
        ("[]", "no schema.*medgrpo score"),
        ('{"schema": 0}', "schema 0.*reads 1.*again"),
        ('{"schema": "2.0"}', "schema '2.0'"),
        ("{", "not JSON"),
        ("\xff", "not JSON"),
    ],
)
def test_foreign_and_older_run_files_are_refused(tmp_path, run_json, message):
    write_run(tmp_path, SAMPLES, {})
    (tmp_path / "run.json").write_bytes(run_json.encode("latin-1"))
    with pytest.raises(MedgrpoError, match=message):
        read_run(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"correct": 1}, "line 1, field correct"),
        ({"year": "2022"}, "line 1, field year"),
        ({"scoring": "void"}, "line 1, field scoring"),
        ({"parsed": None}, "line 1, field parse_failure"),
        ({"score": 1}, "line 1, field score: unknown"),
        ({"id": "116A2"}, "line 2, field id.*twice"),
    ],
)
def test_damaged_samples_name_line_and_field(tmp_path, change, message):
    write_run(tmp_path, SAMPLES[:2], {})
    rows = [{**asdict(SAMPLES[0]), **change}, asdict(SAMPLES[1])]
    (tmp_path / "samples.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with pytest.raises(MedgrpoError, match=message):
        read_run(tmp_path)


def test_folders_that_are_no_run(tmp_path):
    with pytest.raises(MedgrpoError, match="no such folder"):
        read_run(tmp_path / "nowhere")
    with pytest.raises(MedgrpoError, match=r"no run\.json"):
        read_run(tmp_path)
    write_run(tmp_path, SAMPLES, {})
    (tmp_path / "samples.jsonl").unlink()
    with pytest.raises(MedgrpoError, match=r"samples\.jsonl"):
        read_run(tmp_path)


def test_pairs_follow_the_id_and_leave_excluded_questions_out():
    excluded = replace(SAMPLE, id="116A9", scoring="excluded")
    base = Run([*SAMPLES, excluded], {})
    run = Run([excluded, *(replace(s, correct=not s.correct) for s in reversed(SAMPLES))], {})
    assert pair_outcomes(base, run) == (
        ["116A1", "116A2", "116A3"],
        [True, False, True],
        [False, True, False],
    )


def test_runs_over_different_questions_are_refused_with_ids():
    with pytest.raises(MedgrpoError, match=r"only the base has 116A2, 116A3 \(2\)"):
        pair_outcomes(Run(SAMPLES, {}), Run(SAMPLES[:1], {}))
    with pytest.raises(MedgrpoError, match=r"only the run has 116A3"):
        pair_outcomes(Run(SAMPLES[:2], {}), Run(SAMPLES, {}))
    rescored = [replace(SAMPLE, scoring="credited"), *SAMPLES[1:]]
    with pytest.raises(MedgrpoError, match=r"scoring of 116A1 \(1\)"):
        pair_outcomes(Run(SAMPLES, {}), Run(rescored, {}))
    redated = [*SAMPLES[:2], replace(SAMPLES[2], year=2021)]
    with pytest.raises(MedgrpoError, match=r"year of 116A3 \(1\)"):
        pair_outcomes(Run(SAMPLES, {}), Run(redated, {}))
