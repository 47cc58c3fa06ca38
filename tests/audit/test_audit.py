"""The audit's files and command: readable in both languages, self-contained, safe, and useful for machines."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from healthy_log import ARGUMENTS, healthy_log

from medgrpo.audit.audit import PARTS, audit_log, audit_run, read_catalogue, read_words, say
from medgrpo.audit.detectors import DETECTORS
from medgrpo.audit.training_log import read_training_log
from medgrpo.cli import main
from medgrpo.errors import MedgrpoError
from medgrpo.report.wording import LANGUAGES

RUNS = Path(__file__).parent / "recorded"
NASTY = "<script>alert(1)</script> {0} | a_$b$"


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run in which one reward, with a nasty name, dominated; its audits lie in ja/ and en/."""
    folder = tmp_path_factory.mktemp("run")
    rows = []
    for row in healthy_log().rows:
        row = {key.replace("ophtho", NASTY): value for key, value in row.items()}
        if f"advantage_share_varying/{NASTY}" in row:
            row |= {f"advantage_share_varying/{NASTY}": 0.999, "advantage_share_varying/japanese": 0.001}
        rows.append(row)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    info = {"model": "m & m", "rewards": {NASTY: 1.0, "japanese": 1.0}, "arguments": ARGUMENTS}
    (folder / "run.json").write_text(json.dumps(info))
    for lang in LANGUAGES:
        audit_run(folder, folder / lang, lang)
    return folder


@pytest.mark.parametrize("lang", LANGUAGES)
def test_pages_name_the_reward_and_hold_no_foreign_markup(spoilt: Path, lang: str) -> None:
    page = (spoilt / lang / "audit.html").read_text(encoding="utf-8")
    assert "&lt;script&gt;alert(1)&lt;/script&gt; {0} | a_$b$" in page
    assert "<script" not in page
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", page), "it needs nothing beside it"
    assert page.count("<img") == 4
    assert f'<html lang="{lang}">' in page
    markdown = (spoilt / lang / "audit.md").read_text(encoding="utf-8")
    assert "<script" not in markdown
    for image in re.findall(r"\]\((\S+\.png)\)", markdown):
        assert (spoilt / lang / image).read_bytes().startswith(b"\x89PNG")
    other = {"ja": "What to try", "en": "試すこと"}[lang]
    assert other not in page + markdown


def test_json_says_the_same_for_machines(spoilt: Path) -> None:
    found = json.loads((spoilt / "en" / "audit.json").read_text(encoding="utf-8"))
    first = found["findings"][0]
    assert (first["kind"], first["severity"], first["subject"]) == ("dominant_reward", "problem", NASTY)
    assert first["numbers"]["share"] == pytest.approx(0.999)
    assert (first["first_step"], first["last_step"]) == (1, 57)
    assert "MO-GRPO" in first["text"]["try"]
    assert set(found["checks"]) == {detector.__name__ for detector in DETECTORS}


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_finding_has_its_words_in_both_languages(lang: str) -> None:
    from test_detectors import FIRES

    words = read_words(lang)
    said = {finding.kind for _, _, log in FIRES for finding in audit_log(log).findings}
    for _, _, log in FIRES:
        for finding in audit_log(log).findings:
            text = say(finding, words)
            assert all(text[part] for part in PARTS)
            assert "{" not in "".join(text.values())
    in_catalogue = {key.split(".")[1] for key in read_catalogue() if key.startswith("finding.")}
    assert in_catalogue - {"reward_hacking_evaluations"} == said
    for detector in DETECTORS:
        assert words(f"check.{detector.__name__}")
        assert words(f"needs.{detector.__name__}")


def test_command_prints_findings_and_succeeds(spoilt: Path, tmp_path: Path, capsys) -> None:
    assert main(["audit", str(spoilt), "--out", str(tmp_path / "out"), "--lang", "en"]) == 0
    printed = capsys.readouterr().out
    assert f"problem: The reward {NASTY} decided nearly alone" in printed


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "metrics.jsonl").unlink(), "no logged steps in metrics.jsonl"),
        (lambda folder: (folder / "metrics.jsonl").write_text("[1]\n"), "no logged steps in metrics.jsonl"),
        (lambda folder: (folder / "metrics.jsonl").write_text('{"step": true}\n'), "no logged steps"),
        (
            lambda folder: (folder / "metrics.jsonl").write_bytes(b'{"step": 1}\n{"a": "\xff"}\n'),
            "metrics.jsonl, line 2: byte 8 is not UTF-8",
        ),
        (lambda folder: (folder / "run.json").write_text('{"rewards": {"ophtho": "x"}}'), "reward 'ophtho' is 'x'"),
        (lambda folder: (folder / "run.json").write_text('{"rewards": {"ophtho": null}}'), "reward 'ophtho' is None"),
        (lambda folder: (folder / "run.json").write_text('{"rewards": {"ophtho": true}}'), "reward 'ophtho' is True"),
        (lambda folder: (folder / "run.json").write_text("null"), "not the record of a training run"),
        (lambda folder: (folder / "run.json").write_text('{"arguments": [1]}'), "arguments are no JSON object"),
        (lambda folder: (folder / "run.json").write_text("{"), "run.json: not JSON"),
        (lambda folder: (folder / "run.json").write_text("[]"), "run.json: not the record of a training run"),
        (
            lambda folder: [(folder / "after").mkdir(), (folder / "after" / "samples.jsonl").write_text("no\n")],
            "after",
        ),
    ],
)
def test_damaged_runs_are_told_in_one_line(tmp_path: Path, capsys, spoil, message: str) -> None:
    folder = tmp_path / "run"
    shutil.copytree(RUNS / "grpo_tiny", folder)
    spoil(folder)
    assert main(["audit", str(folder), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_log_alone_is_enough(tmp_path: Path, capsys) -> None:
    shutil.copytree(RUNS / "grpo_tiny", tmp_path / "run")
    (tmp_path / "run" / "run.json").unlink()
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 101, "rew')  # a run that is under way, cut in mid-write
    assert main(["audit", str(tmp_path / "run"), "--out", str(tmp_path / "out")]) == 0
    assert "気になる点は見つからなかった。" in capsys.readouterr().out


def test_unknown_language_and_a_file_in_the_way_are_told(tmp_path: Path) -> None:
    with pytest.raises(MedgrpoError, match="'fr'"):
        audit_run(RUNS / "grpo_tiny", tmp_path, "fr")
    (tmp_path / "out").write_text("")
    with pytest.raises(MedgrpoError, match="cannot be written"):
        audit_run(RUNS / "grpo_tiny", tmp_path / "out")


def test_a_log_without_figures_is_still_a_page(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 0.5}\n')
    audit_run(tmp_path, tmp_path / "out")
    assert "<img" not in (tmp_path / "out" / "audit.html").read_text(encoding="utf-8")


def test_command_loads_neither_torch_nor_trl(tmp_path: Path) -> None:
    code = (
        "import sys; from medgrpo.cli import main; "
        f"main(['audit', {str(RUNS / 'grpo_tiny')!r}, '--out', {str(tmp_path)!r}]); "
        "sys.exit(sorted({'torch', 'transformers', 'trl'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_findings_come_problems_first() -> None:
    log = healthy_log(lambda row, done: {"clip_ratio/region_mean": 0.5, "answers/parse_failure_rate": 0.9})
    severities = [finding.severity for finding in audit_log(log).findings]
    assert severities == ["problem", "warning"]


@pytest.mark.parametrize(
    ("model", "shown"), [("/home/someone/secret/my-model", "my-model"), ("org/model", "org/model"), (None, "")]
)
def test_pages_do_not_say_where_a_model_lies(tmp_path: Path, model: str | None, shown: str) -> None:
    (tmp_path / "metrics.jsonl").write_text(f'{{"step": 1, "loss": {10**400}}}\n')
    (tmp_path / "run.json").write_text(json.dumps({"model": model}))
    audit_run(tmp_path, tmp_path / "out", "en")
    for name in ("audit.html", "audit.md", "audit.json"):
        page = (tmp_path / "out" / name).read_text(encoding="utf-8")
        assert "secret" not in page
        assert shown in page or name == "audit.json"


def test_a_log_cut_inside_a_character_is_read_up_to_there(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(b'{"step": 1}\n{"step": 2, "a": "' + "眼".encode()[:2])
    assert [row["step"] for row in read_training_log(tmp_path).rows] == [1]
