"""The folder that is pushed: chosen file by file, so that what nobody thought of stays at home."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id

from medgrpo.comparison.write import COMPARISON_FILE
from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.samples import RUN_FILE, SAMPLES_FILE
from medgrpo.hub.card import CardFigure, write_card
from medgrpo.hub.finished_run import COMPARISON, FinishedRun
from medgrpo.hub.metadata import RESULTS_FOLDER, benchmark_results
from medgrpo.hub.private import is_path, last_name, model_label, public_run_info, refuse_secrets, strip_all
from medgrpo.mapping_file import read_json

CARD = "README.md"
EVALUATION, FIGURES = "evaluation", "figures"

# `save_pretrained` of models, adapters and tokenizers writes no others that loading needs.
_CONFIGS = ("config.json", "generation_config.json", "adapter_config.json", "tokenizer_config.json",
            "special_tokens_map.json", "added_tokens.json", "processor_config.json")  # fmt: skip
_TOKENIZER = ("tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json", "vocab.txt", "merges.txt",
              "chat_template.jinja", "chat_template.json")  # fmt: skip
_TEMPLATES = "additional_chat_templates/*.jinja"
_INDEXES = ("model.safetensors.index.json", "adapter_model.safetensors.index.json")
_WEIGHTS = ("model*.safetensors", "adapter_model*.safetensors")
_DRAWN = ((".", "learning_curve"), (".", "chord"), (".", "reward_gains"), (COMPARISON, "differences"))


def write_folder(
    run: FinishedRun,
    out: Path,
    repo_id: str,
    lang: str = "ja",
    *,
    with_samples: bool = False,
    benchmark: str | None = None,
) -> list[Path]:
    """Write into `out` exactly what is pushed; returns its files, sorted, relative to `out`.

    Weights are linked where the file system can, else copied. `out` is emptied first if an earlier push wrote it,
    and refused if it holds anything else. Raises `MedgrpoError` also for weights that are missing, incomplete or
    not safetensors, for a name that the Hub would refuse, and where a text still names this machine.
    """
    check_repo_id(repo_id)
    weights = _find_weights(run.folder)
    drawn = {name: run.folder / place / f"{name}.png" for place, name in _DRAWN}
    figures = {name: path for name, path in drawn.items() if path.is_file()}
    texts = {
        CARD: write_card(run, repo_id, lang, [CardFigure(f"{FIGURES}/{name}.png", name) for name in figures]),
        **_evaluation_texts(run, with_samples),
        **{path.name: _public_config(path) for path in _present(run.folder, _CONFIGS)},
    }
    if benchmark is not None:
        rows = benchmark_results(run, benchmark)
        texts[f"{RESULTS_FOLDER}/medgrpo.yaml"] = yaml.safe_dump(rows, allow_unicode=True, sort_keys=False)
    for name, text in texts.items():
        refuse_secrets(name, text, run.folder)
    try:
        _empty(out)
        for name, text in texts.items():
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).write_text(text, encoding="utf-8", newline="\n")
        for name, path in figures.items():
            (out / FIGURES).mkdir(exist_ok=True)
            shutil.copyfile(path, out / FIGURES / f"{name}.png")
        for path in (*_present(run.folder, (*_TOKENIZER, *_INDEXES)), *sorted(run.folder.glob(_TEMPLATES))):
            (out / path.relative_to(run.folder)).parent.mkdir(exist_ok=True)
            shutil.copyfile(path, out / path.relative_to(run.folder))
        for path in weights:
            _link(path, out / path.name)
    except OSError as error:
        raise MedgrpoError(f"{out}: cannot be written ({error.strerror}): choose another --out") from error
    return sorted(path.relative_to(out) for path in out.rglob("*") if path.is_file())


def check_repo_id(repo_id: str) -> None:
    """Raise `MedgrpoError` for a name that no repository of the Hub can have."""
    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        reason = " ".join(str(error).split())
        raise MedgrpoError(f"--repo-id {repo_id!r}: has to be OWNER/NAME ({reason})") from error


def describe_files(folder: Path, files: list[Path]) -> str:
    """The files with their sizes in bytes, and the sum."""
    sizes = [(folder / path).stat().st_size for path in files]
    rows = [f"{size:>15,}  {path.as_posix()}" for size, path in zip(sizes, files, strict=True)]
    return "\n".join([*rows, f"{sum(sizes):>15,}  bytes in {len(files)} files"])


def _find_weights(folder: Path) -> list[Path]:
    weights = sorted({path for pattern in _WEIGHTS for path in folder.glob(pattern)})
    if not weights:
        others = sorted(path.name for path in folder.glob("*.bin") if path.name != "training_args.bin")
        advice = f"{', '.join(others)}: only safetensors are pushed" if others else "let the recipe save the model"
        raise MedgrpoError(f"{folder}: no safetensors weights in it: {advice}")
    if not _present(folder, ("config.json", "adapter_config.json")):
        raise MedgrpoError(f"{folder}: weights without a config.json: let the recipe save the model")
    for path in _present(folder, _INDEXES):
        index = read_json(path, "save the model again").get("weight_map")
        if not isinstance(index, dict):
            raise MedgrpoError(f"{path}: has no weight_map: save the model again")
        missing = sorted(set(index.values()) - {found.name for found in weights})
        if missing:
            raise MedgrpoError(f"{path}: names {', '.join(missing[:3])}, which is not there: save the model again")
    return weights


def _evaluation_texts(run: FinishedRun, with_samples: bool) -> dict[str, str]:
    base = model_label(run.record.base, run.record.base_revision)
    scored = {"after": (run.after, f"{base} ({run.record.method})")}
    if run.before is not None:
        scored["before"] = (run.before, base)
    texts = {
        f"{EVALUATION}/{name}_{RUN_FILE}": _dump(public_run_info(one.run_info, label))
        for name, (one, label) in scored.items()
    }
    comparison = strip_all(run.comparison.to_json())
    for facts in comparison["facts"]:
        facts["model"], facts["folder"] = facts["name"], ""
        facts["sampling"] = public_run_info({"sampling": facts["sampling"]}, "")["sampling"]
    texts[f"{EVALUATION}/{COMPARISON_FILE}"] = _dump(comparison)
    if with_samples:
        texts[f"{EVALUATION}/{SAMPLES_FILE}"] = run.samples_file.read_text(encoding="utf-8")
    return texts


def _public_config(path: Path) -> str:
    """A small JSON file of the model as it is, but where a value is a path of this machine only its last name."""
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text)
    except ValueError as error:
        raise MedgrpoError(f"{path}: not JSON ({error}): save the model again") from error
    public = _public_values(content)
    return text if public == content else _dump(public)


def _public_values(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _public_values(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_public_values(inner, key) for inner in value]
    named = key.endswith(("path", "file", "dir", "folder"))
    return last_name(value) if named and isinstance(value, str) and is_path(value) else value


def _dump(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _present(folder: Path, names: tuple[str, ...]) -> list[Path]:
    return [folder / name for name in names if (folder / name).is_file()]


def _empty(out: Path) -> None:
    """Make room: for nothing, or for what an earlier push wrote here."""
    if out.is_dir() and any(out.iterdir()):
        strangers = [path.name for path in _strangers(out)]
        card = out / CARD
        if strangers or not (card.is_file() and "\n- medgrpo\n" in card.read_text(encoding="utf-8")):
            named = f" ({', '.join(sorted(strangers)[:3])})" if strangers else ""
            raise MedgrpoError(f"{out}: holds what no push wrote{named}: choose another --out")
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)


def _strangers(out: Path) -> Iterator[Path]:
    known = {CARD, EVALUATION, FIGURES, RESULTS_FOLDER, *_CONFIGS, *_TOKENIZER, *_INDEXES, Path(_TEMPLATES).parts[0]}
    for path in out.iterdir():
        if path.name not in known and not any(path.match(pattern) for pattern in _WEIGHTS):
            yield path


def _link(source: Path, target: Path) -> None:
    """One file, two names: hundreds of GB are not written twice."""
    try:
        os.link(source.resolve(), target)
    except OSError:
        # Another file system, or one without links.
        shutil.copyfile(source, target)
