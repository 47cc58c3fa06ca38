"""What every page is made with: templates with their filters, text that stays text, files written or refused."""

import base64
import html
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.samples import Sample
from medgrpo.plain_text import visible
from medgrpo.report import numbers
from medgrpo.report.figure_style import Drawing
from medgrpo.statistics import wilson_interval


def new_environment() -> Environment:
    """The templates of this room; what goes into an HTML page is escaped, a missing name is an error."""
    environment = Environment(
        loader=PackageLoader("medgrpo.report"),
        autoescape=select_autoescape(enabled_extensions=("html", "html.j2"), default_for_string=False),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_visible,
    )
    environment.filters.update(
        percent=numbers.percent,
        points=numbers.points,
        span=numbers.percent_interval,
        points_span=numbers.points_interval,
        p_value=numbers.format_p,
        bare_p=numbers.bare_p,
        stars=numbers.stars,
        wilson=lambda tally: wilson_interval(tally.correct, tally.n),
        answer=format_answer,
        cell=markdown_cell,
        fence=markdown_fence,
        shorten=shorten,
    )
    return environment


def _visible(value: Any) -> Any:
    """What is put into a template, without hidden characters; pieces of a page are done already."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def write_files(out_dir: str | Path, files: Mapping[str, str | bytes]) -> list[Path]:
    """Write the files by name into `out_dir`, made where missing; `MedgrpoError` where that fails."""
    folder = Path(out_dir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    except OSError as error:
        raise MedgrpoError(f"{folder}: the report cannot be written ({error.strerror})") from error
    return [folder / name for name in files]


def figure_files(figures: Mapping[str, Drawing]) -> dict[str, bytes]:
    """File name -> content of every figure, as PNG and as SVG."""
    return {f"{name}.{form}": getattr(drawing, form) for name, drawing in figures.items() for form in ("png", "svg")}


def data_uri(content: bytes, media_type: str) -> str:
    """An image as an address that holds the image itself."""
    return f"data:{media_type};base64,{base64.b64encode(content).decode('ascii')}"


def format_answer(sample: Sample, unreadable: str) -> str:
    """What a completion answers: letters or a number, or the word for "cannot be read"."""
    if sample.parsed is None:
        return unreadable
    return sample.parsed if isinstance(sample.parsed, str) else ", ".join(sample.parsed)


def markdown_cell(text: str) -> str:
    """Text that stands as it is inside a Markdown table or line: no markup, no row break, no link, nobody named."""
    escaped = re.sub(r"([\\`*_\[\]~$])", r"\\\1", html.escape(text, quote=False)).replace("|", "&#124;")
    # Bare addresses, @name and #1 become links by themselves in some viewers.
    escaped = re.sub(r"(?i)(https?|ftp|mailto):", r"\1&#58;", escaped).replace("@", "&#64;")
    escaped = re.sub(r"(?i)\b(www)\.", r"\1&#46;", escaped)
    escaped = re.sub(r"(?<!&)#", "&#35;", escaped)
    return " ".join(escaped.split())


def markdown_fence(text: str) -> str:
    """Text as a Markdown code block whose fence is longer than any run of backticks in it."""
    ticks = "```"
    while ticks in text:
        ticks += "`"
    return f"{ticks}text\n{text}\n{ticks}"


def shorten(text: str, note: str | None, keep: int = 6000) -> str:
    """The text without its middle where it is longer than `keep` letters; `note` says so with its {n}."""
    left_out = len(text) - keep
    if note is None or left_out <= 0:
        return text
    half = keep // 2
    return f"{text[:half]}\n{note.format(n=left_out)}\n{text[-half:]}"
