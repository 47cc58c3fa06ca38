"""What may leave this machine: names instead of paths, and nothing that looks like a token."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from medgrpo.errors import MedgrpoError

# A path of some machine within a text: absolute, of a drive, of a share or of a home folder.
_PATH = re.compile(
    r"(?<![\w/.:<])(?:file://)?(?:~[\w.-]*|[A-Za-z]:|\\\\[^\s\\]+)?[/\\](?:[^\s/\\<>()\"']+[/\\])+[^\s/\\<>()\"',;]*"
)
_ADDRESS = re.compile(r"https?://[^\s\"'<>)]+")
_TOKEN = re.compile(r"hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}")

# What of `run.json` of a scored run is nobody's secret. `first_prompt` would quote the exam, `files` and
# `placement` tell of the machine.
_RUN_KEYS = ("schema", "revision", "seed", "commit", "policy", "prompts_sha256")
_PROMPT_KEYS = ("system", "choice_instruction", "number_instruction")
_SAMPLING_KEYS = ("backend", "backend_version", "temperature", "top_p", "top_k", "min_p", "repetition_penalty",
                  "max_new_tokens", "seed", "dtype", "device", "chat_template_kwargs")  # fmt: skip


def model_label(name: str, revision: str | None) -> str:
    """A model as a stranger may read it: a name on the Hub as it is, a folder by its last name alone.

    `revision` is the commit, which only a model of the Hub has. `owner/name` without one is a folder here.
    """
    if revision is not None:
        return name
    return last_name(name)


def last_name(path: str) -> str:
    """The last part of a path of any system: `/home/a/b/` and `C:\\a\\b` -> `b`."""
    parts = PureWindowsPath(path).parts if "\\" in path else PurePosixPath(path).parts
    named = [part for part in parts if part.strip("/\\.~ ") and not part.endswith(":\\")]
    return named[-1] if named else "model"


def is_path(text: str) -> bool:
    """Whether the whole text is a path that only one machine has."""
    return text.startswith(("~", "./", "../", "file://")) or (
        len(text) > 1 and (PurePosixPath(text).is_absolute() or PureWindowsPath(text).is_absolute())
    )


def strip_paths(text: str) -> str:
    """The text with every path in it reduced to its last name, and every address of a server to "a server"."""
    return _PATH.sub(lambda found: last_name(found[0]), _ADDRESS.sub("(a server)", text))


def strip_all(value: Any) -> Any:
    """`strip_paths` for every text within lists and objects, keys left as they are."""
    if isinstance(value, str):
        return strip_paths(value)
    if isinstance(value, Mapping):
        return {key: strip_all(inner) for key, inner in value.items()}
    if isinstance(value, Sequence):
        return [strip_all(inner) for inner in value]
    return value


def public_run_info(info: Mapping[str, Any], model: str) -> dict[str, Any]:
    """`run.json` of a scored run for strangers; `model` is its name as they may read it."""
    prompt, sampling = info.get("prompt_template") or {}, info.get("sampling") or {}
    versions = {name: version for name, version in (info.get("versions") or {}).items() if name != "platform"}
    public = {key: info[key] for key in _RUN_KEYS if key in info}
    return {
        **public,
        "model": model,
        "prompt_template": {key: prompt[key] for key in _PROMPT_KEYS if key in prompt},
        "sampling": strip_all({key: sampling[key] for key in _SAMPLING_KEYS if key in sampling}),
        "versions": versions,
    }


def refuse_secrets(name: str, text: str, folder: Path) -> None:
    """Raise where a text that is about to leave names the home folder, the run's folder or a token.

    The last look at what has been cleaned before: it does not happen, unless a file holds what nobody thought of.
    """
    own = {str(path) + "/" for path in (Path.home(), folder.resolve().parent) if len(path.parts) > 1}
    found = next((path for path in own if path in text), None)
    if found is not None:
        raise MedgrpoError(f"{name}: names {found}, a folder of this machine: take it out of the file before pushing")
    if _TOKEN.search(text):
        raise MedgrpoError(f"{name}: holds what looks like an access token: take it out before pushing")
