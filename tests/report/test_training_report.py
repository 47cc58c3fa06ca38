import base64
import re
from dataclasses import replace

import pytest
from exam_runs import ATTACK, Page

from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.samples import Run
from medgrpo.evaluation.score import score_completions
from medgrpo.exams.question import Question
from medgrpo.report.training_report import describe_decoding, judge, write_training_report
from medgrpo.statistics import compare_paired

QUESTIONS = [
    Question(
        id=f"Q{i}",
        question=f"第{i}問 <img src=x>",
        choices={"a": "はい|", "b": "</td>いいえ"},
        answer=[["a"]],
        exam="模擬",
        year=2023 + i % 2,
        text_only=i % 4 != 0,
        scoring="excluded" if i == 19 else "credited" if i == 18 else "normal",
    )
    for i in range(20)
]
METRICS = [{"step": i, "reward": i / 4, "rewards/ophtho/mean": i / 8} for i in range(1, 6)]
GREEDY = {"model": "tiny", "seed": 0, "sampling": {"temperature": 0.0}}


def run(right: range, unreadable: range = range(0), **run_info) -> Run:
    completions = {
        f"Q{i}": ATTACK + ("読めない" if i in unreadable else "[ans]a[/ans]" if i in right else "[ans]b[/ans]")
        for i in range(20)
    }
    return Run(score_completions(QUESTIONS, completions), {**GREEDY, **run_info})


BASE, TUNED = run(range(1, 6), unreadable=range(10, 14)), run(range(2, 17))


@pytest.fixture
def report(tmp_path):
    settings = {"手法": "GSPO", "a|b": "<b>x</b>", "learning_rate": 1e-6}
    return write_training_report(tmp_path / "r", BASE, TUNED, METRICS, "題 <i>&", settings, questions=QUESTIONS)


def test_both_pages_state_the_numbers(report):
    markdown = report[0].read_text("utf-8")
    html = Page(report[1].read_text("utf-8")).text
    # 19 counted: before Q1-Q5 and the credited Q18 right, after Q2-Q16 and Q18; b = {Q1}, c = {Q6..Q16}.
    for page in (markdown, html):
        assert "31.6" in page and "84.2" in page
        assert "6 / 19" in page and "16 / 19" in page
        assert "+52.6" in page
        assert "p = .0063" in page, "2 (1 + 12) / 2^12"
        assert "78.9" in page and "100.0" in page, "format compliance: 15 and 19 of 19"
        assert "greedy decoding" in page
        assert "held-out" in page
        assert "有意に改善" in page and "significantly improved" in page
        assert "題 " in page
        assert "2023" in page and "2024" in page and "text only" in page
    assert "| b: 学習前だけ正解 only before right | 1 |" in markdown
    assert "| c: 学習後だけ正解 only after right | 11 |" in markdown
    assert "| 読み取れない答え parse failures | 4 | 0 |" in markdown


def test_html_is_self_contained_and_well_formed(report):
    html = report[1].read_text("utf-8")
    page = Page(html)
    sources = [value for name, value in page.attributes if name in ("src", "href")]
    assert len(sources) == 2
    for source, name in zip(sources, ("accuracy.png", "learning_curve.png"), strict=True):
        png = base64.b64decode(source.removeprefix("data:image/png;base64,"))
        assert png == (report[1].parent / name).read_bytes()
        assert png.startswith(b"\x89PNG")
    assert "url(" not in html and "@import" not in html
    assert ("name", "viewport") in page.attributes and ("lang", "ja") in page.attributes


def test_completions_and_names_show_as_text(report):
    page = Page(report[1].read_text("utf-8"))
    assert "script" not in page.tags and page.tags.count("img") == 2
    # Three newly right, one newly wrong, each with both completions.
    assert page.text.count("<script>alert('x')</script>&amp;</pre>```") == 8
    assert "<b>x</b>" in page.text and "第6問 <img src=x>" in page.text and "</td>いいえ" in page.text
    markdown = report[0].read_text("utf-8")
    outside = re.sub(r"(?ms)^(`{3,})text\n.*?^\1$", "", markdown)
    assert "<" not in outside, "markup outside a code block"
    assert "| a&#124;b | &lt;b&gt;x&lt;/b&gt; |" in markdown
    for line in re.findall(r"(?m)^\|.*$", outside):
        assert line.count("|") in (3, 4, 7), line


def test_examples_name_the_questions_newly_won_and_lost(report):
    markdown = report[0].read_text("utf-8")
    won, lost = markdown.split("### 新たに誤答 newly wrong: 1")
    assert "### 新たに正解 newly right: 11" in won
    assert re.findall(r"\*\*(Q\d+)\*\*", won) == ["Q6", "Q7", "Q8"]
    assert re.findall(r"\*\*(Q\d+)\*\*", lost) == ["Q1"]


def test_questions_are_optional(tmp_path):
    _, html = write_training_report(tmp_path, BASE, TUNED, METRICS, "t", {})
    page = Page(html.read_text("utf-8"))
    assert "Q6" in page.text and "第6問" not in page.text


def test_no_log_no_gain_and_nothing_won(tmp_path):
    paths = write_training_report(tmp_path, BASE, BASE, [], "t", {})
    for path in paths:
        text = path.read_text("utf-8")
        assert "no training log" in text
        assert "証拠は得られなかった" in text and "no evidence" in text
        assert "有意に改善" not in text
    assert not (tmp_path / "learning_curve.png").exists()


def test_trained_questions_are_never_called_held_out(tmp_path):
    for path in write_training_report(tmp_path, BASE, TUNED, [], "t", {}, held_out=False):
        text = path.read_text("utf-8")
        assert "held-out" not in text and "学習に使っていない" not in text
        assert "that were trained on" in text


def test_unlike_runs_are_refused(tmp_path):
    with pytest.raises(MedgrpoError, match="Q19"):
        write_training_report(tmp_path, Run(BASE.samples[:-1], {}), TUNED, [], "t", {})
    only_excluded = Run([replace(s, scoring="excluded") for s in BASE.samples], {})
    with pytest.raises(MedgrpoError, match="excluded"):
        write_training_report(tmp_path, only_excluded, only_excluded, [], "t", {})
    (tmp_path / "file").write_text("")
    with pytest.raises(MedgrpoError, match="cannot be written"):
        write_training_report(tmp_path / "file", BASE, TUNED, [], "t", {})


@pytest.mark.parametrize(
    ("b", "c", "kind", "japanese"),
    [
        (0, 6, "better", "有意に改善"),
        (6, 0, "worse", "有意に悪化"),
        (0, 5, "open", "証拠は得られなかった"),
        (32, 41, "open", "証拠は得られなかった"),
        (0, 0, "open", "証拠は得られなかった"),
        (571, 117, "worse", "p < .001"),
    ],
)
def test_the_verdict_follows_p_and_direction(b, c, kind, japanese):
    verdict = judge(compare_paired([1] * b + [0] * c + [1], [0] * b + [1] * c + [1]))
    assert verdict.kind == kind
    assert japanese in verdict.japanese
    assert ("improved" in verdict.english) == (kind == "better")


def test_decoding_is_told_from_both_runs():
    sampled = {"sampling": {"temperature": 0.9}, "seed": 4}
    assert "greedy" in describe_decoding(GREEDY, GREEDY)
    assert "temperature 0.9, seed 4" in describe_decoding(sampled, sampled)
    assert "unknown" in describe_decoding({"sampling": None}, {})
    assert "decoded differently" in describe_decoding(GREEDY, sampled)
