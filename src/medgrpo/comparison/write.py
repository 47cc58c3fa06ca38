"""`comparison.json`: the whole comparison for scripts and papers."""

import json
from pathlib import Path

from medgrpo.comparison.result import Comparison
from medgrpo.errors import MedgrpoError

COMPARISON_FILE = "comparison.json"


def write_comparison(out_dir: str | Path, comparison: Comparison) -> Path:
    """Write `comparison.json` into `out_dir` (made where missing); returns its path.

    Raises `MedgrpoError` for a folder that cannot be written.
    """
    path = Path(out_dir) / COMPARISON_FILE
    text = json.dumps(comparison.to_json(), ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise MedgrpoError(f"{path}: cannot be written ({error.strerror}): choose another --out") from error
    return path
