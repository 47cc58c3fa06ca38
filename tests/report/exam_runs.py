"""A made-up exam and runs on it, with everything in them that could break a page."""

from html.parser import HTMLParser

import numpy as np

from medgrpo.evaluation.samples import Run
from medgrpo.evaluation.score import score_completions
from medgrpo.exams.question import Question

ATTACK = "<script>alert('x')</script>&amp;</pre>```\n| a | b |\n"
DEPARTMENTS = ["内科", "外科", "耳鼻科 | 頭頸部", "神経内科", "麻酔科", "肝臓", "<b>救急</b>"]
BASE, GRPO, ODD = "Base 80B", "GRPO", "<script>run|名\n2</script>"


def make_questions(n: int = 140, exam: str = "igakuqa", years: tuple[int, ...] = (2021, 2022)) -> list[Question]:
    """`n` questions; the 8th is excluded, the 9th credited, every 4th needs an image."""
    return [
        Question(
            id=f"{years[i * len(years) // n]}A{i}",
            question=f"第{i}問 <img src=x> | 表",
            choices={"a": "はい|", "b": "</td>いいえ"},
            answer=[["a"]],
            exam=exam,
            year=years[i * len(years) // n],
            department=DEPARTMENTS[i % len(DEPARTMENTS)],
            text_only=i % 4 != 0,
            required=i % 5 == 0,
            contraindicated=["b"] if i == 6 else [],
            scoring="excluded" if i == 7 else "credited" if i == 8 else "normal",
        )
        for i in range(n)
    ]


def make_run(questions: list[Question], share: float, seed: int, unreadable: int = 0, **run_info) -> Run:
    """A run that gets about `share` right, its first `unreadable` answers not readable."""
    right = np.random.default_rng(seed).random(len(questions)) < share
    completions = {
        question.id: ATTACK + ("読めない" if i < unreadable else f"[ans]{'a' if right[i] else 'b'}[/ans]")
        for i, question in enumerate(questions)
    }
    info = {
        "model": "tiny <b>|",
        "seed": seed,
        "sampling": {"backend": "vllm", "temperature": 0.0},
        "prompt_template": {"system": "あなたは医師です。\n<script>p</script>```"},
        "versions": {"torch": "2.13.0"},
    }
    return Run(score_completions(questions, completions), {**info, **run_info})


class Page(HTMLParser):
    """The elements and the visible text of a page; raises on a tag that closes what is not open."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags, self.attributes, self.open, self.text = [], [], [], ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.extend(attrs)
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += data
