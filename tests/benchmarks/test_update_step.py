"""The benchmark of an update step: both engines do the same step, and what it prints is what it measured."""

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
SCRIPTS = ("update_step", "update_step_engines", "update_step_report")
MODELS = ("qwen3", "qwen3_next", "qwen3_moe")


@pytest.fixture(scope="module")
def scripts() -> Iterator[dict[str, ModuleType]]:
    threads = torch.get_num_threads()
    sys.path.insert(0, str(FOLDER))
    yield {name: importlib.import_module(name) for name in SCRIPTS}
    sys.path.remove(str(FOLDER))
    torch.set_num_threads(threads)
    for name in SCRIPTS:
        del sys.modules[name]


@pytest.fixture(scope="module")
def measured(scripts: dict[str, ModuleType], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One small case of each model, one of them with checkpointing."""
    path = tmp_path_factory.mktemp("update_step") / "cases.jsonl"
    common = ["--quick", "--out", str(path)]
    scripts["update_step"].main([*common, "--checkpointing", "off"])
    scripts["update_step"].main([*common, "--checkpointing", "on", "--models", "qwen3_next"])
    return path


def test_both_engines_compute_the_same_loss_and_gradient(measured: Path) -> None:
    cases = [json.loads(line) for line in measured.read_text(encoding="utf-8").splitlines()]
    assert [case["model"] for case in cases] == [*MODELS, "qwen3_next"]
    assert [case["checkpointing"] for case in cases] == [False, False, False, True]
    for case in cases:
        assert case["packed"], "our engine took TRL's pass"
        assert case["loss"]["trl"] > 1e-3  # a reference of its own: the loss is not 0
        assert case["loss"]["medgrpo"] == pytest.approx(case["loss"]["trl"], rel=1e-4)
        assert case["gradient_difference"] < 1e-3
        for engine in ("trl", "medgrpo"):
            seconds, peaks = case["seconds"][engine], case["peak_mib"][engine]
            # Each pass was seen in each turn, and they are parts of the step.
            for old, reference, update, step in zip(*(seconds[part] for part in seconds), strict=True):
                assert min(old, reference, update) > 0
                assert old + reference + update <= step
            assert peaks["step"] == max(peaks.values()) > peaks["old"] > 0


def test_memory_is_counted_exactly(scripts: dict[str, ModuleType], tmp_path: Path) -> None:
    engines = scripts["update_step_engines"]
    case = engines.Case("qwen3", 16, 4, 2, hidden=32, layers=1, vocabulary=64)
    engine = engines.Engine(case, engines.TRL, tmp_path)
    first, second = engine.peaks(), engine.peaks()
    assert first["update"] == pytest.approx(second["update"], rel=0.02)
    parameters = sum(value.numel() for value in engine.trainer.model.parameters())
    # The policy, the reference, AdamW's two moments and the gradients, 4 bytes each.
    assert first["update"] > 5 * 4 * parameters / 2**20


def test_the_table_and_the_figure_come_of_the_lines(
    scripts: dict[str, ModuleType], measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.loads(line) for line in measured.read_text(encoding="utf-8").splitlines()]
    lines[0]["seconds"] = {
        "trl": {"old": [3, 6, 6], "reference": [3, 3, 3], "update": [8, 8, 8], "step": [14, 18, 20]},
        "medgrpo": {"old": [1, 1, 1], "reference": [1, 1, 2], "update": [2, 2, 2], "step": [4, 4, 4]},
    }
    lines[0]["peak_mib"] = {"trl": {"step": 100.0}, "medgrpo": {"step": 25.0}}
    told = tmp_path / "told.jsonl"
    told.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    figure = tmp_path / "figure.svg"
    scripts["update_step"].main(["--report", str(told), "--figure", str(figure)])
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("| Qwen3 |"))
    # G (P + C) / (P + G C) = 4 (32 + 8) / (32 + 4 * 8) = 2.5
    assert "| 32, 8, 4 | off | 6.0x | 3.0x | 4.0x | **4.5x** [3.5, 5.0] | 2.5x | 0.56 | 100 | 25 | 0.25 |" in row
    assert figure.read_text(encoding="utf-8").count('<g id="patch_') > len(lines)  # a bar each


@pytest.mark.parametrize("shape", ["512x64", "0x4x4", "axbxc", "8x8x1"])
def test_a_shape_that_is_none_is_refused(scripts: dict[str, ModuleType], shape: str) -> None:
    with pytest.raises(SystemExit, match="is not PxCxG"):
        scripts["update_step"].main(["--shapes", shape])
