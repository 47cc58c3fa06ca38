from pathlib import Path

import pytest
from forked import run_forked
from safetensors.torch import load_file

from medgrpo.trainers.run_log import read_metrics

HERE = Path(__file__).parent


def launch(processes: int, name: str, folder: Path, model: Path, batch: int) -> None:
    done = run_forked(
        HERE / "ddp_run.py",
        *(name, str(folder), str(model), str(batch)),
        processes=processes,
        env={"TRL_EXPERIMENTAL_SILENCE": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]


# In the last one the one group of a batch lies half on each process.
@pytest.mark.parametrize(("name", "batch"), [("grpo", 16), ("gspo", 16), ("mo_grpo", 16), ("consensus", 4)])
def test_two_processes_equal_one_at_the_same_global_batch(
    name: str, batch: int, make_model, tokenizer, tmp_path
) -> None:
    base = tmp_path / "base"
    make_model().save_pretrained(base)
    tokenizer.save_pretrained(base)
    launch(1, name, tmp_path / "one", base, batch=batch)
    launch(2, name, tmp_path / "two", base, batch=batch // 2)
    start = load_file(base / "model.safetensors")
    one, two = (load_file(tmp_path / folder / "model.safetensors") for folder in ("one", "two"))
    assert max((one[key] - two[key]).abs().max().item() for key in one) < 1e-5
    assert min((one[key] - start[key]).abs().max().item() for key in one) > 1e-4
    # The metrics are written once, by the first process, and clipping happened: the ratios were not all 1.
    rows = [row for row in read_metrics(tmp_path / "two") if "loss" in row]
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert max(row["clip_ratio/region_mean"] for row in rows) > 0
