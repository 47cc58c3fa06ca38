"""Every notebook runs as it is, from a fresh kernel, and what is committed shows what it printed."""

import re
import sys
from pathlib import Path

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
NAMES = ["01_emoji", "02_rewards_and_parser", "03_grpo_and_gspo", "04_strange_log_and_mo_grpo", "05_chord"]
NAMES += ["06_compare_audit_report"]
# Absolute paths of a machine: what a notebook that was run in somebody's home shows.
MACHINE_PATH = re.compile(r"(?<![\w.:/])/(?:root|home|Users|tmp|work|workspace|mnt|content)/|site-packages/")
MOST_BYTES = 400_000


class ThisPython(KernelSpecManager):
    """Kernels that run in the Python of this test, whatever Jupyter has installed elsewhere."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        return KernelSpec(
            argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], display_name=kernel_name
        )


def outputs(notebook: nbformat.NotebookNode) -> list[tuple[str, str]]:
    """(kind, text) of every output that is read as text."""
    found = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "stream":
                found.append((output.name, output.text))
            elif output.output_type == "error":
                found.append(("error", "\n".join(output.traceback)))
            else:
                found += [(kind, str(text)) for kind, text in output.data.items() if kind.startswith("text/")]
    return found


def pictures(notebook: nbformat.NotebookNode) -> int:
    return sum("image/png" in output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", []))


def test_all_six_are_here():
    assert [path.stem for path in NOTEBOOKS] == NAMES


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_committed_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert path.stat().st_size < MOST_BYTES
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1)), "run all cells, in order, once"
    assert pictures(notebook) >= 2
    shown = outputs(notebook)
    assert not [text for kind, text in shown if kind in ("error", "stderr")]
    assert not [text for _, text in shown if MACHINE_PATH.search(text)]
    assert not [cell.source for cell in notebook.cells if MACHINE_PATH.search(cell.source)]
    # Colab has no medgrpo: the first code cell installs it.
    assert '"install", "-q", "medgrpo' in code[0].source


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_from_a_fresh_kernel(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    drawn = pictures(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    kernels = AsyncKernelManager(kernel_spec_manager=ThisPython())
    client = NotebookClient(notebook, km=kernels, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    # Our own kernel manager is left running unless told otherwise: six kernels and their sockets, in this process.
    client.execute(cleanup_kc=True)  # raises CellExecutionError with the cell and its traceback
    assert pictures(notebook) == drawn
