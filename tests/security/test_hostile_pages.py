"""Strings that attack a reader, through every page, figure and terminal: they come out as text."""

import json
import re
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / room) for room in ("report", "audit")]

from exam_runs import Page  # noqa: E402
from healthy_log import ARGUMENTS, healthy_log  # noqa: E402

from medgrpo.audit.audit import audit_run  # noqa: E402
from medgrpo.cli import main  # noqa: E402
from medgrpo.comparison.compare import compare_runs  # noqa: E402
from medgrpo.evaluation.samples import Run, write_run  # noqa: E402
from medgrpo.evaluation.score import score_completions  # noqa: E402
from medgrpo.exams.question import Question, write_questions  # noqa: E402
from medgrpo.report.comparison_report import write_comparison_report  # noqa: E402
from medgrpo.report.training_report import write_training_report  # noqa: E402

MARK = "evil"
HOSTILE = (
    f"<script>{MARK}()</script><img src=x onerror={MARK}()>\"'><a href='javascript:{MARK}()'>x</a>--><!--"
    f" [x](http://{MARK}.example/) ![y](http://{MARK}.example/y.png) <http://{MARK}.example> https://{MARK}.example"
    f" www.{MARK}.example @{MARK} #1 | a | b |\n|---|\n```\n# {MARK}\n</pre></style>&#60;script&#62;{{{{ 7*7 }}}}{{0}}"
    "\x1b[31m\x1b]0;title\x07\x00\x08\r\u202egnp.exe\u2066\u200f\u2028 $x$ \\ ~~~ *b* _i_"
)
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
NAME = f"<b onclick={MARK}()>{MARK}()</b>--><!-- [x](http://{MARK}.example/) `c` |d| @{MARK} #1 \x1b[31m\u202e\x00{{0}}"
LONG = "長" * 60_000


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> Path:
    """A folder with the training report, the comparison report and the audit of a hostile model and exam."""
    folder = tmp_path_factory.mktemp("pages")
    questions = [
        Question(
            id=f"{i}{NAME}".strip(), question=HOSTILE, choices={"a": HOSTILE, "b": "x"}, answer=[["a"]], exam=NAME,
            year=2021 + i % 2, department=f"{NAME}{i % 3}",
        )
        for i in range(40)
    ]  # fmt: skip
    info = {
        "model": NAME,
        "seed": 0,
        "sampling": {"temperature": 0.0, NAME: NAME},
        "prompt_template": {"system": HOSTILE},
    }

    def make(share: int) -> Run:
        texts = {
            q.id: (LONG if i == 0 else "") + HOSTILE + f"[ans]{'a' if i % 4 < share else 'b'}[/ans]"
            for i, q in enumerate(questions)
        }
        return Run(score_completions(questions, texts), info)

    runs = {f"base {NAME}": make(1), NAME: make(3)}
    base, tuned = runs.values()
    write_training_report(
        folder / "training",
        base,
        tuned,
        [{"step": 1, "reward": 0.5, f"rewards/{NAME}/mean": 1}, {"step": 2, "reward": 0.6}],
        NAME,
        {NAME: NAME},
        questions=questions,
    )
    comparison = compare_runs(runs, f"base {NAME}")
    write_comparison_report(folder / "comparison", comparison, runs, questions)
    reward = NAME.replace("/", "")
    (folder / "run").mkdir()
    rows = [{key.replace("ophtho", reward): value for key, value in row.items()} for row in healthy_log().rows]
    (folder / "run" / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "run" / "run.json").write_text(
        json.dumps({"model": NAME, "rewards": {reward: 1.0, "japanese": 0.0}, "arguments": {**ARGUMENTS, "seed": NAME}})
    )
    audit_run(folder / "run", folder / "audit")
    return folder


HTML = ("training/report.html", "comparison/comparison.html", "audit/audit.html")
MARKDOWN = ("training/report.md", "comparison/comparison.md", "audit/audit.md")


@pytest.mark.parametrize("name", HTML)
def test_html_holds_nothing_but_its_own_elements(pages: Path, name: str) -> None:
    html = (pages / name).read_text(encoding="utf-8")
    page = Page(html)
    assert not {"script", "iframe", "object", "link", "base", "form", "b"} & set(page.tags)
    assert all(value.startswith(("data:", "#")) for key, value in page.attributes if key in ("src", "href"))
    assert not [key for key, _ in page.attributes if key.startswith("on")]
    assert {key for key, value in page.attributes if MARK in (value or "")} <= {"alt"}, "a description is text"
    assert f"{MARK}()" in page.text and f"http://{MARK}.example/" in page.text
    assert not HIDDEN.search(html)
    assert r"\u001b[31m" in page.text and r"\u202e" in page.text


@pytest.mark.parametrize("name", MARKDOWN)
def test_markdown_holds_nothing_but_its_own_markup(pages: Path, name: str) -> None:
    text = (pages / name).read_text(encoding="utf-8")
    assert not HIDDEN.search(text)
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    inline = [inner for token in tokens for inner in [token, *(token.children or [])]]
    assert not [token.content for token in inline if token.type in ("html_block", "html_inline")]
    links = [
        token.attrs.get("href") or token.attrs.get("src") for token in inline if token.type in ("link_open", "image")
    ]
    assert not [link for link in links if not re.fullmatch(r"#?[\w-]+(\.png)?", str(link))]
    headings = [after.content for token, after in zip(tokens, tokens[1:], strict=False) if token.type == "heading_open"]
    assert MARK not in headings
    # What a viewer turns into a link by itself, outside code.
    prose = "".join(token.content for token in tokens if token.type == "inline")
    assert not re.search(rf"https?://{MARK}|(?<!\w)@{MARK}|www\.{MARK}", prose)


def test_figures_are_images_without_the_text(pages: Path) -> None:
    figures = list(pages.rglob("*.svg"))
    assert len(figures) >= 4
    for path in figures:
        content = path.read_text(encoding="utf-8")
        elements = {element.tag.rpartition("}")[2] for element in xml.fromstring(content).iter()}
        assert not elements & {"script", "a", "image", "foreignObject", "text"}, path
        assert MARK not in content and "<!--" not in content


def test_a_page_stays_small_whatever_a_model_says(pages: Path) -> None:
    for name in (*HTML, *MARKDOWN):
        assert (pages / name).read_text(encoding="utf-8").count("長") <= 20_000, name


def test_a_terminal_gets_no_command(pages: Path, tmp_path: Path, capsys) -> None:
    name = NAME.replace("/", "")
    questions = [
        Question(id=f"{i}{name}", question="x", choices={"a": "1", "b": "2"}, answer=[["a"]], department=name)
        for i in range(4)
    ]
    write_questions(tmp_path / "q.jsonl", questions)
    for run in ("one", "two"):
        samples = score_completions(questions, {q.id: "[ans]a[/ans]" for q in questions})
        write_run(tmp_path / run, samples, {"model": name})
    lines = [json.dumps({"id": q.id, "completion": HOSTILE}) for q in questions]
    (tmp_path / "c.jsonl").write_text("\n".join(lines))
    (tmp_path / "short.jsonl").write_text(lines[0])
    verbs = [
        ["score", "c.jsonl", "--questions", "q.jsonl", "--out", "scored"],
        ["score", "short.jsonl", "--questions", "q.jsonl", "--out", "refused"],
        ["data", "check", "q.jsonl", "q.jsonl"],
        ["compare", "one", "two", "--out", "compared"],
    ]
    statuses = [
        main(
            [
                str(tmp_path / word)
                if (tmp_path / word).exists() or word in ("scored", "refused", "compared")
                else word
                for word in verb
            ]
        )
        for verb in verbs
    ]
    statuses.append(main(["audit", str(pages / "run"), "--out", str(tmp_path / "audit")]))
    printed = capsys.readouterr()
    assert statuses == [0, 2, 1, 0, 0]
    assert MARK in printed.out and MARK in printed.err
    assert not HIDDEN.search(printed.out) and not HIDDEN.search(printed.err)
