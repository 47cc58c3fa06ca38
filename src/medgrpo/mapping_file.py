"""A JSON or YAML file that holds one object of named values: read whole, or refused in one line."""

import json
from pathlib import Path
from typing import Any

import yaml

from medgrpo.errors import MedgrpoError


def read_json(path: Path, advice: str) -> dict[str, Any]:
    """A JSON object; raises `MedgrpoError`, with the advice, where there is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise MedgrpoError(f"{path.parent}: no {path.name}: {advice}") from error
    except OSError as error:
        raise MedgrpoError(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise MedgrpoError(f"{path}: not JSON ({error}): {advice}") from error
    if not isinstance(content, dict):
        raise MedgrpoError(f"{path}: has to hold a JSON object: {advice}")
    return content


def read_yaml(path: str | Path, option: str = "") -> dict[str, Any]:
    """`name: value` lines; raises `MedgrpoError`, naming the line and the option that named the file."""
    told = f"{option} {path}".strip()
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise MedgrpoError(f"{told}: can't be read ({getattr(error, 'strerror', None) or error})") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise MedgrpoError(f"{told}{line}: not YAML ({getattr(error, 'problem', None) or error})") from error
    if not isinstance(content, dict):
        raise MedgrpoError(f"{told}: has to hold `name: value` lines")
    return content
