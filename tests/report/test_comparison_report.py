import base64
import json
import re
import shutil
import subprocess
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from exam_runs import BASE, DEPARTMENTS, GRPO, ODD, Page, make_questions, make_run
from markdown_it import MarkdownIt

from medgrpo.comparison.compare import compare_runs
from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.samples import Run
from medgrpo.report.comparison_report import write_comparison_report

QUESTIONS = make_questions()
RUNS = {
    BASE: make_run(QUESTIONS, 0.4, 0),
    GRPO: make_run(QUESTIONS, 0.95, 1),
    ODD: make_run(QUESTIONS, 0.42, 2, unreadable=3, sampling={"backend": "vllm", "temperature": 0.9}),
}
COMPARISON = compare_runs(RUNS, BASE, draws=200)


@pytest.fixture(scope="module", params=["ja", "en"])
def report(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib warns where it draws a box instead of a character
        paths = write_comparison_report(folder, COMPARISON, RUNS, QUESTIONS, request.param)
    return request.param, folder, paths


def test_the_page_and_its_figures_are_written(report):
    _, folder, paths = report
    assert {path.name for path in paths} == {path.name for path in folder.iterdir()}
    assert [path.name for path in paths[:2]] == ["comparison.html", "comparison.md"]
    for name in ("differences", "years", "departments"):
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        svg = (folder / f"{name}.svg").read_text("utf-8")
        assert "<text" not in svg and "font-family" not in svg, "letters are outlines"
        assert not re.findall(r'(?:href|src)="(?!#)', svg) and "DOCTYPE" not in svg and "<metadata" not in svg


def test_the_html_needs_nothing_from_outside(report):
    lang, folder, _ = report
    html = (folder / "comparison.html").read_text("utf-8")
    page = Page(html)
    sources = [value for name, value in page.attributes if name in ("src", "srcset", "data", "action", "poster")]
    assert len(sources) == 3
    for source in sources:
        svg = base64.b64decode(source.removeprefix("data:image/svg+xml;base64,"))
        assert svg in [path.read_bytes() for path in folder.glob("*.svg")]
    anchors = [value for name, value in page.attributes if name == "href"]
    targets = [value for name, value in page.attributes if name == "id"]
    assert anchors and all(anchor.startswith("#") and anchor[1:] in targets for anchor in anchors)
    assert not re.search(r"url\(|@import|http-equiv|<base|<link|<iframe|<object", html)
    assert not re.search(r"https?://", re.sub(r"base64,[^\"]*", "", html))
    assert ("lang", lang) in page.attributes and ("name", "viewport") in page.attributes
    assert all(value for name, value in page.attributes if name == "alt")


def test_completions_questions_and_names_show_as_text(report):
    _, folder, _ = report
    page = Page((folder / "comparison.html").read_text("utf-8"))
    assert "script" not in page.tags and "b" not in page.tags and page.tags.count("img") == 3
    assert "<script>alert('x')</script>&amp;</pre>```" in page.text
    assert "第0問 <img src=x> | 表" in page.text and "</td>いいえ" in page.text
    assert ODD in page.text and "<b>救急</b>" in page.text and "tiny <b>|" in page.text
    assert "<script>p</script>```" in page.text, "the prompt"


def test_markdown_tables_are_well_formed(report):
    _, folder, _ = report
    text = (folder / "comparison.md").read_text("utf-8")
    outside = re.sub(r"(?ms)^(`{3,})text\n.*?^\1$", "", text)
    assert "<" not in re.sub(r"&lt;|<\.001", "", outside), "markup outside a code block"
    tables = re.findall(r"(?m)(?:^\|.*\n)+", outside)
    assert len(tables) == 10
    for table in tables:
        rows = table.splitlines()
        assert re.fullmatch(r"\|(---\|)+", rows[1])
        assert len({row.count("|") for row in rows}) == 1, table
        assert len(rows) > 2
    html = MarkdownIt("commonmark").enable("table").render(outside)
    assert html.count("<table>") == len(tables)
    assert html.count("<img ") == 3
    for name in re.findall(r"!\[.*?\]\((.*?)\)", outside):
        assert (folder / name).is_file()


def test_both_pages_state_the_numbers(report):
    lang, folder, _ = report
    cell, base = COMPARISON.cell(GRPO), COMPARISON.score(BASE)
    html = Page((folder / "comparison.html").read_text("utf-8")).text
    text = (folder / "comparison.md").read_text("utf-8")
    expected = [
        f"{100 * base.accuracy:.1f}",
        f"{100 * cell.accuracy:.1f} ({100 * cell.delta:+.1f})",
        f"{100 * base.ci[0]:.1f}–{100 * base.ci[1]:.1f}",
        "2021",
        str(cell.n),
    ]
    for wanted in expected:
        assert wanted in html and wanted in text
    row = next(line for line in text.splitlines() if line.startswith("| GRPO | 139 |"))
    assert [field.strip() for field in row.split("|")][5:9] == [
        str(cell.b),
        str(cell.c),
        "<.001".replace("<", "&lt;"),
        "&lt;.001",
    ]
    won, lost = ("新たに正解 {n} 問", "新たに誤答 {n} 問") if lang == "ja" else ("Newly right: {n}", "Newly wrong: {n}")
    for page in (html, text):
        assert won.format(n=cell.c) in page and lost.format(n=cell.b) in page


def test_the_verdict_says_what_may_be_said(report):
    lang, folder, _ = report
    page = Page((folder / "comparison.html").read_text("utf-8")).text
    if lang == "ja":
        assert "GRPO は Base 80B より正答率が有意に高い。" in page
        assert "との差があるという証拠は得られなかった。" in page
        assert "差がないことの証明でもない。" in page and "確率で検出できるのは、真の差が" in page
        assert "復号条件が異なる" in page
    else:
        assert "GRPO: accuracy significantly higher than Base 80B." in page
        assert "no evidence of a difference from Base 80B." in page
        assert "Nor does this show that there is none." in page and "would have been found with probability" in page
        assert "decoded differently" in page


def test_prose_is_in_one_language(report):
    lang, folder, _ = report
    page = Page((folder / "comparison.html").read_text("utf-8")).text
    own = page
    for text in (
        *sorted(DEPARTMENTS, key=len, reverse=True),
        ODD,
        "はい|",
        "</td>いいえ",
        "読めない",
        "あなたは医師です。",
    ):
        own = own.replace(text, "")
    own = re.sub(r"(?m)第\d+問 <img src=x> \| 表|\d+ 年の基準の出典:.*$", "", own)
    if lang == "en":
        assert not re.findall(r"[\u3040-\u30ff\u4e00-\u9fff]+", own)
    else:
        assert not re.findall(r"\b(?:the|of|is|wrong|right|accuracy|questions)\b", own)


def test_pass_lines_stand_where_years_of_the_licensing_exam_do(report, tmp_path):
    lang, folder, _ = report
    text = (folder / "comparison.md").read_text("utf-8")
    heading = "## 合格基準" if lang == "ja" else "## Pass lines"
    section = text.split(heading)[1].split("## ")[0]
    assert section.count("| 2021 |") == section.count("| 2022 |") == 3
    assert ("80%" in section) and "214 / 297" in section
    other = [replace(question, department=None) for question in make_questions(30, exam="別の試験")]
    runs = {name: make_run(other, 0.5, seed) for seed, name in enumerate((BASE, GRPO))}
    paths = write_comparison_report(tmp_path, compare_runs(runs, BASE, draws=50), runs, (), lang)
    assert heading not in paths[1].read_text("utf-8")


def test_runs_made_differently_are_told_apart(report):
    lang, folder, _ = report
    text = (folder / "comparison.md").read_text("utf-8")
    differing = text.split("モデルによって異なる項目" if lang == "ja" else "What differs between the models")[1]
    differing, common = differing.split("全モデルに共通の項目" if lang == "ja" else "What is the same for all")
    assert "| sampling.temperature | 0.0 | 0.0 | 0.9 |" in differing
    assert "| versions.torch | 2.13.0 |" in common
    assert "prompt\\_template.system" in common


def test_without_texts_the_ids_stand(tmp_path):
    runs = {BASE: RUNS[BASE], GRPO: RUNS[GRPO]}
    html = write_comparison_report(tmp_path, compare_runs(runs, BASE, draws=20), runs)[0].read_text("utf-8")
    assert "第0問" not in html and "問題文は渡されていない" in html and "2021A" in html


def test_a_small_comparison_leaves_out_what_it_has_not(tmp_path):
    questions = [replace(question, year=0, department=None) for question in make_questions(6)]
    runs = {name: make_run(questions, 0.5, 3) for name in ("a", "b")}
    text = write_comparison_report(tmp_path, compare_runs(runs, "a", draws=50), runs, questions)[1].read_text("utf-8")
    for heading in ("年度別の推移", "診療科", "モデルどうし", "シード", "合格基準"):
        assert f"## {heading}" not in text
    assert "問すべてで両モデルの正誤が一致した" in text and "食い違ったのは 0 問" not in text
    assert "年不明" not in text
    assert not (tmp_path / "years.png").exists()


def test_seeds_are_judged_as_one_method(tmp_path):
    names = ["GRPO s0", "GRPO s1", "GRPO s2"]
    runs = {BASE: RUNS[BASE], **{name: make_run(QUESTIONS, 0.8, 10 + i) for i, name in enumerate(names)}}
    runs["GSPO"] = RUNS[GRPO]
    comparison = compare_runs(runs, BASE, groups={"GRPO": names}, draws=50)
    text = write_comparison_report(tmp_path, comparison, runs)[1].read_text("utf-8")
    assert "**GRPO は Base 80B より正答率が有意に高い。GSPO は Base 80B より正答率が有意に高い。**" in text
    assert "- **GRPO**:" in text and "- **GRPO s0**:" not in text and "3 シードの平均" in text
    assert "## シードごとの結果" in text
    accuracies = " / ".join(f"{100 * comparison.score(name).accuracy:.1f}" for name in names)
    assert accuracies in text


def test_many_runs_keep_figures_readable(tmp_path):
    questions = [replace(question, department="内科") for question in make_questions(40)]
    runs = {f"run {i}": make_run(questions, 0.5, i) for i in range(15)}
    paths = write_comparison_report(tmp_path, compare_runs(runs, "run 0", draws=20), runs, questions)
    names = {path.name for path in paths}
    assert {f"departments_{sheet}.svg" for sheet in (1, 2, 3, 4)} <= names and "departments_5.svg" not in names
    assert "図は先頭の 12 モデルまで。" in paths[0].read_text("utf-8")


def test_a_long_completion_is_cut_and_says_so(tmp_path):
    long = Run([replace(s, completion="あ" * 9000 + s.completion) for s in RUNS[GRPO].samples], {})
    runs = {BASE: RUNS[BASE], GRPO: long}
    html = write_comparison_report(tmp_path, compare_runs(runs, BASE, draws=20), runs)[0].read_text("utf-8")
    assert re.search(r"…（\d+ 字省略）…", html) and "あ" * 4000 not in html


def test_bad_use_is_refused(tmp_path):
    with pytest.raises(MedgrpoError, match="'fr'.*ja, en"):
        write_comparison_report(tmp_path, COMPARISON, RUNS, lang="fr")
    with pytest.raises(MedgrpoError, match="lack GRPO"):
        write_comparison_report(tmp_path, COMPARISON, {BASE: RUNS[BASE], ODD: RUNS[ODD]})
    with pytest.raises(MedgrpoError, match="different questions"):
        write_comparison_report(tmp_path, COMPARISON, {**RUNS, GRPO: Run(RUNS[GRPO].samples[1:], {})})
    (tmp_path / "file").write_text("")
    with pytest.raises(MedgrpoError, match="cannot be written"):
        write_comparison_report(tmp_path / "file", COMPARISON, RUNS)


def ask_browser(path: Path, folder: Path) -> tuple[str, str, set[str]]:
    """The page as Chromium sees it, its log, and every address that was asked for."""
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next((found for name in names if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("no Chromium on this machine: the page is not opened")
    log, netlog = folder / "chrome.log", folder / "net.json"
    command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    command += ["--disable-component-update", "--disable-sync", "--no-first-run", "--disable-default-apps"]
    # No name is resolved: a page that asks somebody is found, and reaches nobody.
    command += ["--disable-features=NetworkTimeServiceQuerying", "--host-resolver-rules=MAP * ~NOTFOUND"]
    command += [f"--user-data-dir={folder / 'profile'}", "--enable-logging", f"--log-file={log}"]
    command += [f"--log-net-log={netlog}", "--dump-dom", path.as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True).stdout
    events = json.loads(netlog.read_text("utf-8"))["events"]
    started = [event["params"] for event in events if "initiator" in event.get("params", {})]
    # What nobody initiated are the browser's own errands (its updates, its clock) and the page itself.
    asked = {params["url"] for params in started if params["initiator"] != "not an origin"}
    asked = {url for url in asked if not url.startswith("data:")}
    return dom, log.read_text("utf-8", errors="replace"), asked


def test_a_browser_finds_no_error_and_asks_nobody(report, tmp_path):
    _, folder, _ = report
    dom, log, asked = ask_browser(folder / "comparison.html", tmp_path)
    assert "</html>" in dom and Page(dom).tags.count("img") == 3
    assert "CONSOLE" not in log
    assert not asked


def test_the_browser_would_have_told(tmp_path):
    page = tmp_path / "bad.html"
    page.write_text('<img src="http://example.invalid/x.png"><script>throw Error("broken")</script>', "utf-8")
    _, log, asked = ask_browser(page, tmp_path)
    assert "broken" in log and "http://example.invalid/x.png" in asked


def write_markdown(folder, runs, questions=QUESTIONS, lang="en", **options):
    comparison = compare_runs(runs, next(iter(runs)), draws=20, **options)
    return comparison, write_comparison_report(folder, comparison, runs, questions, lang)[1].read_text("utf-8")


def test_results_go_by_alpha(tmp_path):
    runs = {"A": make_run(QUESTIONS, 0.4, 0), "B": make_run(QUESTIONS, 0.55, 1)}
    p = compare_runs(runs, "A", draws=20).cell("B").p_holm
    assert 0.001 < p < 0.05
    for alpha, mark, verdict in ((p * 1.01, "*", "significantly"), (p, "n.s.", "no evidence of a difference")):
        _, text = write_markdown(tmp_path, runs, alpha=alpha)
        row = next(line for line in text.splitlines() if line.startswith("| B | 139 |"))
        assert row.split("|")[9].strip().replace("\\", "").startswith(mark)
        assert f"**B: {verdict}" in text or f"B: accuracy {verdict}" in text
        assert text.count(f"{alpha:g}".removeprefix("0")) > 3


def test_a_run_by_the_key_alone_gets_no_pass_verdict(tmp_path):
    years = make_questions(years=(2022, 2023))
    runs = {"A": make_run(years, 0.4, 0, policy="board"), "B": make_run(years, 0.5, 1, policy="board")}
    assert "## Pass lines" in write_markdown(tmp_path, runs, years)[1]
    by_key = {name: Run(run.samples, {**run.run_info, "policy": "key"}) for name, run in runs.items()}
    assert "## Pass lines" not in write_markdown(tmp_path, by_key, years)[1]


def test_no_page_shows_where_a_file_lay(tmp_path):
    paths = {"completions": "/home/somebody/secret/c.jsonl", "questions": "C:\\Users\\somebody\\q.jsonl"}
    paths |= {"folder": "/home/somebody/runs/x", "model": "/home/somebody/models/tiny"}
    made = {name: make_run(QUESTIONS, 0.4, seed) for seed, name in enumerate("ABC")}
    runs = {name: Run(run.samples, {**run.run_info, **paths}) for name, run in made.items()}
    write_markdown(tmp_path, runs)
    for name in ("comparison.md", "comparison.html"):
        text = (tmp_path / name).read_text("utf-8")
        assert "somebody" not in text
        assert "look like seeds of one method (tiny)" in text
        assert "c.jsonl" in text and "q.jsonl" in text
    hub = {name: Run(run.samples, {**run.run_info, "model": "org/name"}) for name, run in runs.items()}
    assert "org/name" in write_markdown(tmp_path, hub)[1], "a model of the hub keeps its owner"


@pytest.mark.parametrize("method", ["exact", "mid-p", "chi2"])
def test_the_note_says_by_which_test_a_difference_is_detectable(tmp_path, method):
    _, text = write_markdown(
        tmp_path, {name: make_run(QUESTIONS, 0.4, i) for i, name in enumerate("AB")}, method=method
    )
    assert ("It is that of the exact test" in text) == (method != "exact")


def test_two_families_do_not_share_a_sentence(tmp_path):
    runs = {name: make_run(QUESTIONS, 0.4 if i == 0 else 0.9, i) for i, name in enumerate(["A", "s0", "s1", "B"])}
    _, text = write_markdown(tmp_path, runs, groups={"G": ["s0", "s1"]})
    assert "**G: accuracy significantly higher than A. B: accuracy significantly higher than A.**" in text
    assert "two families" in text and "a family of its own beside the single models' tests" in text
