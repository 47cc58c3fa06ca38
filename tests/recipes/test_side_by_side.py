"""recipes/side_by_side.py as people start it: trained, killed, taken up again, reported."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import yaml
from forked import run_forked

from medgrpo.cli import main
from medgrpo.evaluation.samples import read_run
from medgrpo.hub.record import read_record
from medgrpo.statistics import mcnemar

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "recipes" / "side_by_side.py"
COMMAND = [sys.executable, str(RECIPE), "--config", "design.yaml"]


def write_design(folder: Path) -> None:
    design = yaml.safe_load((ROOT / "recipes" / "configs" / "tiny_side_by_side_cpu.yaml").read_text(encoding="utf-8"))
    design["placement"] = str(ROOT / "accelerate_configs" / "cpu.yaml")
    design["output_dir"] = "out"
    design["lang"] = "en"
    design["settings"] |= {"max_steps": 6, "save_steps": 1}
    wanted = ("GRPO", "CHORD+GSPO+MO-GRPO")
    design["exams"] = {
        "early": {"file": "mini_exam", "years": 2023},
        "late": {"file": "mini_exam", "years": "2024-2026"},
    }
    design["methods"] = {label: design["methods"][label] for label in wanted}
    (folder / "design.yaml").write_text(yaml.safe_dump(design, sort_keys=False), encoding="utf-8")


def start(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        COMMAND,
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def wait_for(path: Path, started: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 400
    while not path.is_dir():
        assert started.poll() is None, started.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_stopped_killed_and_started_again_it_goes_on_and_reports(tmp_path: Path, monkeypatch, capsys) -> None:
    write_design(tmp_path)
    # Asked to stop, by a signal to the launching process alone: the training saves and ends before it does.
    asked = start(tmp_path)
    grpo, both = (tmp_path / "out" / label / "seed0" for label in ("GRPO", "CHORD+GSPO+MO-GRPO"))
    wait_for(grpo / "checkpoint-1", asked)
    asked.send_signal(signal.SIGTERM)
    printed = asked.communicate(timeout=300)[0]
    assert asked.returncode == 0, printed
    assert "[2/3] GRPO/seed0: stopped by SIGTERM" in printed
    assert "after step" in (grpo / "log.txt").read_text(encoding="utf-8")
    with (grpo / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # nobody holds it: no training was left behind
    # Killed, with everything that it had started.
    killed = start(tmp_path)
    wait_for(both / "checkpoint-1", killed)
    os.killpg(killed.pid, signal.SIGKILL)
    assert "[2/3] GRPO/seed0: finished in" in killed.communicate()[0]
    scored = (tmp_path / "out" / "base" / "late" / "samples.jsonl").stat().st_mtime_ns

    printed, _ = start(tmp_path).communicate(timeout=800)
    assert "[1/3] base: finished already" in printed
    assert "[3/3] CHORD+GSPO+MO-GRPO/seed0: finished in" in printed, printed
    assert (tmp_path / "out" / "base" / "late" / "samples.jsonl").stat().st_mtime_ns == scored

    assert (tmp_path / "out" / "report" / "early" / "comparison.html").is_file()
    report = tmp_path / "out" / "report" / "late"
    told = json.loads((report / "comparison.json").read_text(encoding="utf-8"))
    (cell,) = [c for c in told["cells"] if c["run"] == "GRPO" and c["slice_kind"] == "all"]
    base = {s.id: s.correct for s in read_run(tmp_path / "out" / "base" / "late").samples}
    tuned = {s.id: s.correct for s in read_run(tmp_path / "out" / "GRPO" / "seed0" / "late").samples}
    b = sum(base[name] and not tuned[name] for name in base)
    c = sum(tuned[name] and not base[name] for name in base)
    assert (cell["n"], cell["b"], cell["c"]) == (len(base), b, c)
    assert cell["p"] == mcnemar(b, c)

    page = (report / "comparison.html").read_text(encoding="utf-8")
    order = ["setup", "accuracy", "tests", "pairs", "years", "departments", "best", "parse", "curves", "audits"]
    places = [page.index(f'<h2 id="{name}">') for name in order]
    assert places == sorted(places)
    for shown in ("chord_mu_peak", "CHORD+GSPO+MO-GRPO/seed0/audit/audit.html", "importance_sampling_level"):
        assert shown in page
    assert (report / "curves.png").stat().st_size > 10_000
    assert (tmp_path / "out" / "GRPO" / "seed0" / "audit" / "audit.html").is_file()
    assert (tmp_path / "out" / "CHORD+GSPO+MO-GRPO" / "seed0" / "model.safetensors").is_file()

    monkeypatch.chdir(tmp_path)
    for exam in ("early", "late"):  # a model card is about one exam
        pushed = ["push", "out/GRPO/seed0", "--repo-id", "lab/x", "--dry-run", "--comparison", f"out/report/{exam}"]
        out = ["--run", "GRPO", "--scored", exam, "--out", f"hub_{exam}"]
        assert main([*pushed, *out]) == 0, capsys.readouterr().err
        record = read_record(tmp_path / "out" / "GRPO" / "seed0" / exam)
        samples = read_run(tmp_path / "out" / "GRPO" / "seed0" / exam).samples
        assert record.held_out.examples == len(samples)
        assert record.held_out.years == sorted({sample.year for sample in samples})

    again = run_forked(RECIPE, "--config", "design.yaml", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert again.stdout.count("finished already") == 3
