"""recipes/side_by_side.py as people start it: trained, killed, taken up again, reported."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import yaml

from medgrpo.evaluation.samples import read_run
from medgrpo.hub.record import read_record
from medgrpo.statistics import mcnemar

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, str(ROOT / "recipes" / "side_by_side.py"), "--config", "design.yaml"]


def write_design(folder: Path) -> None:
    design = yaml.safe_load((ROOT / "recipes" / "configs" / "tiny_side_by_side_cpu.yaml").read_text(encoding="utf-8"))
    design["placement"] = str(ROOT / "accelerate_configs" / "cpu.yaml")
    design["output_dir"] = "out"
    design["lang"] = "en"
    design["settings"] |= {"max_steps": 2, "save_steps": 1}
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


def test_killed_and_started_again_it_goes_on_and_reports(tmp_path: Path) -> None:
    write_design(tmp_path)
    first = start(tmp_path)
    checkpoint = tmp_path / "out" / "GRPO" / "seed0" / "checkpoint-1"
    deadline = time.monotonic() + 400
    while not checkpoint.is_dir():
        assert first.poll() is None, first.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.2)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
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

    for exam in ("early", "late"):  # a model card is about one exam
        asked = ["push", "out/GRPO/seed0", "--repo-id", "lab/x", "--dry-run", "--comparison", f"out/report/{exam}"]
        command = [
            sys.executable,
            "-m",
            "medgrpo.cli",
            *asked,
            "--run",
            "GRPO",
            "--scored",
            exam,
            "--out",
            f"hub_{exam}",
        ]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=300)
        record = read_record(tmp_path / "out" / "GRPO" / "seed0" / exam)
        samples = read_run(tmp_path / "out" / "GRPO" / "seed0" / exam).samples
        assert record.held_out.examples == len(samples)
        assert record.held_out.years == sorted({sample.year for sample in samples})

    again = subprocess.run(COMMAND, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr
    assert again.stdout.count("finished already") == 3
