"""Records without their owner: files that are shown to others don't say who ran them, nor where that person lives."""

import getpass
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HIDDEN_USER = "USER"


def without_owner(value: Any) -> Any:
    """The value with every text in it (lists and objects gone through) free of the home folder and the user's name.

    The home folder becomes `~`, which every program of the project reads as that folder again. Elsewhere in a path a
    folder called like the user becomes `USER`; a name of less than three letters, or `root`, is nobody's.
    """
    return _hide(value, str(Path.home()), _user())


def last_name(name: str) -> str:
    """Of a path of this machine the last part, for pages that are shown to others; any other name as it is."""
    path = Path(name)
    return path.name if path.is_absolute() or name.startswith("~") else name


def _hide(value: Any, home: str, user: str | None) -> Any:
    if isinstance(value, str):
        if len(home) > 1:
            value = re.sub(rf"(?<![\w.-]){re.escape(home)}(?![\w.-])", "~", value)
        return re.sub(rf"(?<=/){re.escape(user)}(?=/|\Z)", HIDDEN_USER, value) if user else value
    if isinstance(value, Mapping):
        return {key: _hide(inner, home, user) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_hide(inner, home, user) for inner in value]
    return value


def _user() -> str | None:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a number without a name, as in some containers
        return None
    return user if len(user) > 2 and user != "root" else None
