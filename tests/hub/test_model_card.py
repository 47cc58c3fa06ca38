"""The card says what comparison.json says, and nothing that a stranger must not read."""

import json
import re

import pytest
from finished_runs import CANARIES, HOME, HOSTILE_EXAM, QUESTION_TEXT, make_finished_run, make_record
from huggingface_hub import ModelCard
from markdown_it import MarkdownIt

from medgrpo.errors import MedgrpoError
from medgrpo.hub.card import write_card
from medgrpo.hub.finished_run import read_finished_run
from medgrpo.hub.metadata import benchmark_results
from medgrpo.hub.papers import find_papers
from medgrpo.hub.private import is_path, last_name, model_label, refuse_secrets, strip_paths
from medgrpo.hub.record import write_record
from medgrpo.report.numbers import bare_p, percent, percent_interval, points, points_interval


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_finished_run(tmp_path_factory.mktemp("card") / "run")


@pytest.fixture(scope="module")
def card(folder):
    return write_card(read_finished_run(folder), "lab/my-model", "en")


@pytest.fixture(scope="module")
def comparison(folder):
    return json.loads((folder / "comparison" / "comparison.json").read_text(encoding="utf-8"))


def rows_of(card: str) -> list[list[str]]:
    """Every row of every table, its fields without the Markdown."""
    lines = [line for line in card.splitlines() if line.startswith("|")]
    return [[re.sub(r"\\(.)|\*\*", r"\1", field).strip() for field in line.strip("|").split("|")] for line in lines]


def test_numbers_worked_out_by_hand(card):
    # Base 40 of 100, run 48; b = 2, c = 10: p = 2 (1 + 12 + 66) / 2^12 = .0386; Wilson of 48/100 is 38.5 to 57.7.
    row = next(row for row in rows_of(card) if row[0] == "GRPO" and row[1] == "100")
    assert row[2:8] == ["48.0 [38.5–57.7]", row[3], "2", "10", ".0386", ".0386"]
    assert row[3].startswith("+8.0 [")


def test_every_slice_has_the_numbers_of_comparison_json(card, comparison):
    rows = rows_of(card)
    cells = [c for c in comparison["cells"] if c["slice_kind"] in ("year", "department")]
    assert len(cells) == 2 + 4
    for cell in cells:
        wanted = [
            str(cell["n"]),
            percent(cell["base_accuracy"]),
            f"{percent(cell['accuracy'])} [{percent_interval(cell['ci'])}]",
            f"{points(cell['delta'])} {points_interval(cell['delta_ci'])}",
            str(cell["b"]),
            str(cell["c"]),
            bare_p(cell["p"]),
        ]
        assert any(row[1:8] == wanted and row[8].startswith(bare_p(cell["p_holm"])) for row in rows), cell["slice"]


def test_machine_readable_results(card, comparison):
    read = ModelCard(card)
    assert read.data.model_name == "my-model"
    assert read.data.language == ["ja"]
    assert read.data.base_model is None
    assert {"medgrpo", "grpo", "arxiv:2402.03300"} <= set(read.data.tags)
    found = {(r.dataset_config, r.metric_type): r for r in read.data.eval_results}
    cells = [c for c in comparison["cells"] if c["slice_kind"] != "department"]
    assert set(found) == {(c["slice"], "accuracy") for c in cells} | {("all", "format_compliance")}
    for cell in cells:
        result = found[cell["slice"], "accuracy"]
        assert result.metric_value == cell["accuracy"]
        assert result.metric_args == {
            "n": cell["n"],
            "wilson_interval": cell["ci"],
            "base_accuracy": cell["base_accuracy"],
            "difference": cell["delta"],
            "difference_interval": cell["delta_ci"],
            "b": cell["b"],
            "c": cell["c"],
            "mcnemar_exact_p": cell["p"],
            "p_holm": cell["p_holm"],
        }
    assert found["all", "format_compliance"].metric_value == 1.0
    assert found["all", "accuracy"].dataset_name == " ".join(HOSTILE_EXAM.split())


def test_base_of_the_hub_is_named_with_its_commit(tmp_path):
    folder = make_finished_run(tmp_path / "run")
    write_record(folder, make_record(base="Qwen/Qwen3-8B", revision="f" * 40))
    card = write_card(read_finished_run(folder), "lab/x", "en")
    data = ModelCard(card).data
    assert (data.base_model, data.base_model_relation) == ("Qwen/Qwen3-8B", "finetune")
    rows = rows_of(card)
    assert ["Base", "Qwen/Qwen3-8B"] in rows
    assert ["Base revision (commit)", "f" * 40] in rows


@pytest.mark.parametrize("lang", ["ja", "en"])
def test_hostile_texts_stay_texts(folder, lang):
    card = write_card(read_finished_run(folder), "lab/my-model", lang)
    body = ModelCard(card).text
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(body)
    assert "<script" not in html
    assert "<b>" not in html
    assert 'href="javascript' not in html
    assert not re.findall(r'<img[^>]*src="(?!figures/)', html)
    assert "&lt;script&gt;" in html
    titles = re.findall(r"<h1>(.*?)</h1>", html)
    assert titles == ["my-model"]
    # Each row of a table has the fields of its head: no text has opened a field of its own.
    for table in re.findall(r"<table>(.*?)</table>", html, re.S):
        widths = {len(re.findall(r"<t[hd]\b", row)) for row in re.findall(r"<tr>(.*?)</tr>", table, re.S)}
        assert len(widths) == 1
    # The prompt's ``` has not ended the block of code.
    assert 'class="language-python"' in html
    assert "\\u0060" in html


@pytest.mark.parametrize("lang", ["ja", "en"])
def test_no_secret_in_the_card(folder, lang):
    card = write_card(read_finished_run(folder), "lab/my-model", lang)
    for canary in CANARIES:
        assert canary not in card
    assert "base-8b" in card


def test_limits_are_in_both_languages_whatever_the_cards_is(folder):
    for lang in ("ja", "en"):
        card = write_card(read_finished_run(folder), "lab/my-model", lang)
        assert "Not for clinical use" in card
        assert "臨床での使用" in card
    with pytest.raises(MedgrpoError, match="language 'fr'"):
        write_card(read_finished_run(folder), "lab/my-model", "fr")


def test_data_and_settings(card):
    rows = rows_of(card)
    train = next(row for row in rows if row[0] == "Trained on")
    assert [train[1], *train[3:]] == ["train.jsonl", "2018–2020", "300", "4", "d" * 64]
    assert next(row for row in rows if row[0] == "Held out")[-1] == "e" * 64
    assert ["learning_rate", "1e-06"] in rows
    assert ["Optimizer steps", "7"] in rows
    assert ["Seed", "3"] in rows
    assert ["trl", "1.16.0"] in rows
    # max_steps rules: the epochs beside it would mislead.
    assert "num_train_epochs" not in card.replace("\\", "")


def test_papers_are_those_of_the_settings():
    assert [p.name for p in find_papers({"importance_sampling_level": "token"})] == ["GRPO", "TRL"]
    combined = {"importance_sampling_level": "sequence", "chord_mu_peak": 0.1, "advantage": "mo_grpo"}
    papers = find_papers(combined)
    assert [p.arxiv for p in papers] == ["2402.03300", "2507.18071", "2508.11408", "2509.22047", None]
    for paper in papers:
        assert paper.bibtex.count("{") == paper.bibtex.count("}")
        assert re.match(r"@\w+\{[a-z0-9]+,\n", paper.bibtex)
        assert paper.arxiv is None or paper.arxiv in paper.bibtex


def test_several_runs_are_corrected_together(tmp_path):
    folder = make_finished_run(tmp_path / "run", extra=set(range(5, 55)))
    run = read_finished_run(folder, name="GRPO")
    rows = rows_of(write_card(run, "lab/x", "en"))
    row = next(row for row in rows if row[0] == "GRPO" and row[1] == "100")
    # Holm over two tests, of which this p is the smaller (Other: b = 5, c = 15, p = .0414): 2 * 158 / 4096.
    assert row[6:8] == [".0386", ".0771"]


def test_benchmark_results_are_the_hubs_own_form(folder):
    rows = benchmark_results(read_finished_run(folder), "lab/exam:held_out")
    assert rows == [
        {
            "dataset": {"id": "lab/exam", "task_id": "held_out"},
            "value": 0.48,
            "notes": "n = 100, 95 % Wilson interval 0.3846 to 0.5768, medgrpo",
        }
    ]
    with pytest.raises(MedgrpoError, match="OWNER/DATASET:TASK"):
        benchmark_results(read_finished_run(folder), "exam")


def test_paths_become_names():
    assert model_label("Qwen/Qwen3-8B", "abc") == "Qwen/Qwen3-8B"
    assert model_label(f"{HOME}/models/m/", None) == "m"
    assert model_label("runs/m", None) == "m"
    assert model_label("tiny", None) == "tiny"
    assert last_name("C:\\Users\\alice\\m") == "m"
    assert last_name("~/m") == "m"
    assert last_name("/") == "model"
    assert strip_paths(f"dtype a / b, from {HOME}/x/m.json (and http://10.1.2.3:8000/v1)") == (
        "dtype a / b, from m.json (and (a server))"
    )
    assert strip_paths("file:///home/alice/m.json, ~/a/b, C:\\Users\\alice\\c") == "m.json, b, c"
    assert strip_paths("正答/誤答、p < .05/2、and/or") == "正答/誤答、p < .05/2、and/or"
    assert [is_path(text) for text in ("/a/b", "~/a", "C:\\a", "./a", "a/b", "/", "")] == [True] * 4 + [False] * 3


def test_last_look_refuses_what_was_forgotten(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", HOME)
    with pytest.raises(MedgrpoError, match="config.json: names /home/alice/"):
        refuse_secrets("config.json", f'{{"x": "see {HOME}/y"}}', tmp_path)
    with pytest.raises(MedgrpoError, match="access token"):
        refuse_secrets("config.json", "hf_" + "a" * 34, tmp_path)
    refuse_secrets("config.json", QUESTION_TEXT, tmp_path)
