import csv
import json

import numpy as np
import pytest

from medgrpo.comparison.compare import compare_runs
from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.samples import Run
from medgrpo.statistics import (
    benjamini_hochberg,
    compare_paired,
    holm,
    smallest_detectable_difference,
    wilson_interval,
)


@pytest.fixture
def seed_runs(make_run):
    """The four systems of the published igakuqa table, with its only possible discordant counts."""
    only_base, only_run = {"GRPO": 32, "GSPO": 30, "CHORD": 30}, {"GRPO": 41, "GSPO": 38, "CHORD": 40}
    runs = {"Base": make_run([1] * 1004 + [0] * 118)}
    for name, b in only_base.items():
        runs[name] = make_run([0] * b + [1] * (1004 - b) + [1] * only_run[name] + [0] * (118 - only_run[name]))
    return runs


def test_the_published_table(seed_runs):
    comparison = compare_runs(seed_runs, "Base")
    cells = {name: comparison.cell(name) for name in ("GRPO", "GSPO", "CHORD")}
    assert [(cell.b, cell.c) for cell in cells.values()] == [(32, 41), (30, 38), (30, 40)]
    assert [round(100 * cell.accuracy, 1) for cell in cells.values()] == [90.3, 90.2, 90.4]
    assert [round(100 * cell.delta, 1) for cell in cells.values()] == [0.8, 0.7, 0.9]
    assert [round(cell.p, 3) for cell in cells.values()] == [0.349, 0.396, 0.282]
    assert [cell.p_holm for cell in cells.values()] == pytest.approx([0.846, 0.846, 0.846], abs=5e-4)
    assert cells["GRPO"].base_accuracy == 1004 / 1122
    assert cells["GRPO"].ci == wilson_interval(1013, 1122)
    # An observed gain of .8 points where 2.2 could have been shown, and 19 more wins than losses were needed.
    assert cells["GRPO"].detectable_difference == smallest_detectable_difference(1122, 73 / 1122)
    assert cells["GRPO"].significant_imbalance == 19
    assert cells["GRPO"].family == "all"
    assert comparison.families[0].english == "each run against Base on all questions: 3 tests"
    assert (comparison.base, comparison.runs) == ("Base", ("GRPO", "GSPO", "CHORD"))


def test_every_cell_is_the_paired_comparison_of_its_slice(make_run):
    generator = np.random.default_rng(0)
    n = 240
    fields = {
        "year": [2023 + i % 2 for i in range(n)],
        "department": [["内科", "外科", None][i % 3] for i in range(n)],
        "text_only": [i % 4 > 0 for i in range(n)],
    }
    outcomes = {name: generator.random(n) < 0.6 for name in ("base", "x", "y", "z")}
    runs = {name: make_run(right.astype(int).tolist(), **fields) for name, right in outcomes.items()}
    comparison = compare_runs(runs, "base", method="mid-p")
    assert comparison.slices == (
        ("all", "all"),
        ("text_only", "text_only"),
        ("year", "2023"),
        ("year", "2024"),
        ("department", "内科"),
        ("department", "外科"),
    )
    assert [(cell.run, cell.base) for cell in comparison.pairs[:3]] == [("y", "x"), ("z", "x"), ("z", "y")]
    masks = {
        "all": np.ones(n, bool),
        "text_only": np.array(fields["text_only"]),
        **{str(year): np.array(fields["year"]) == year for year in (2023, 2024)},
        **{name: np.array([d == name for d in fields["department"]]) for name in ("内科", "外科")},
    }
    assert len(comparison.cells) == 6 * 3
    assert len(comparison.pairs) == 6 * 3
    for cell in (*comparison.cells, *comparison.pairs):
        mask = masks[cell.slice]
        expected = compare_paired(outcomes[cell.base][mask], outcomes[cell.run][mask], "mid-p")
        found = (cell.n, cell.b, cell.c, cell.base_accuracy, cell.accuracy, cell.delta, cell.delta_ci, cell.p)
        wanted = (expected.n, expected.b, expected.c, expected.base_accuracy, expected.run_accuracy)
        assert found == (*wanted, expected.delta, expected.delta_ci, expected.p)
        assert cell.method == "mid-p"


def test_families_are_corrected_by_themselves(make_run):
    generator = np.random.default_rng(1)
    departments = [f"科{i % 4}" for i in range(400)]
    runs = {
        name: make_run((generator.random(400) < share).astype(int).tolist(), department=departments)
        for name, share in (("base", 0.5), ("x", 0.6), ("y", 0.65))
    }
    comparison = compare_runs(runs, "base")
    tests = {family.name: (family.tests, family.declared) for family in comparison.families}
    assert tests == {
        "all": (2, True),
        "pairs: all": (1, False),
        "text_only": (2, False),
        "pairs: text_only": (1, False),
        "department": (8, True),
        "pairs: department": (4, False),
    }
    for name, (count, _) in tests.items():
        cells = [cell for cell in (*comparison.cells, *comparison.pairs) if cell.family == name]
        assert len(cells) == count
        assert [cell.p_holm for cell in cells] == holm([cell.p for cell in cells]).tolist()
        assert [cell.p_bh for cell in cells] == benjamini_hochberg([cell.p for cell in cells]).tolist()

    joined = compare_runs(runs, "base", family="pairs")
    assert {family.name: family.tests for family in joined.families}["all"] == 3
    cells = [joined.cell("x"), joined.cell("y"), joined.cell("y", base="x")]
    assert [cell.p_holm for cell in cells] == holm([cell.p for cell in cells]).tolist()
    assert {cell.family for cell in cells} == {"all"}


def test_excluded_questions_leave_every_number(make_run):
    scoring = ["normal", "excluded", "credited", "normal"]
    comparison = compare_runs(
        {"base": make_run("0010", scoring=scoring), "run": make_run("1110", scoring=scoring)}, "base"
    )
    cell, facts = comparison.cell("run"), comparison.facts_of("run")
    assert (cell.n, cell.b, cell.c) == (3, 0, 1)
    assert (facts.n, facts.excluded, facts.credited) == (3, 1, 1)
    assert comparison.score("run").correct == 2


def test_questions_are_matched_by_id_not_by_place(make_run):
    base, run = make_run("1100"), make_run("0101")
    shuffled = Run(run.samples[::-1], run.run_info)
    assert compare_runs({"b": base, "r": shuffled}, "b").cell("r") == compare_runs({"b": base, "r": run}, "b").cell("r")


def test_format_compliance_by_slice(make_run):
    failing = {"parse_failure": [True, False, True, False], "parsed": [None, ["a"], None, ["a"]]}
    years = [2023, 2023, 2024, 2024]
    comparison = compare_runs(
        {"base": make_run("1111", year=years), "run": make_run("0101", year=years, **failing)}, "base"
    )
    assert comparison.facts_of("run").parse_failures == 2
    assert comparison.score("run", "year", "2024").format_compliance == 0.5
    assert comparison.score("base").format_compliance == 1


def test_best_method_by_department(make_run):
    departments = ["内科"] * 60 + ["外科"] * 60
    runs = {
        "base": make_run([1] * 30 + [0] * 30 + [1] * 40 + [0] * 20, department=departments),
        "x": make_run([1] * 55 + [0] * 5 + [1] * 40 + [0] * 20, department=departments),
        "y": make_run([1] * 30 + [0] * 30 + [0] * 20 + [1] * 40, department=departments),
    }
    best = {record.slice: record for record in compare_runs(runs, "base").best}
    assert list(best) == ["all", "内科", "外科"]
    assert (best["内科"].winners, best["内科"].n) == (("x",), 60)
    assert best["内科"].delta == pytest.approx(25 / 60)
    assert best["内科"].probability_best["x"] == 1
    # All three have 40 of 60 there: base and x on the same questions, y on others.
    assert best["外科"].winners == ("base", "x", "y")
    assert best["外科"].delta == 0
    assert best["外科"].probability_best == pytest.approx({"base": 0.25, "x": 0.25, "y": 0.5}, abs=0.05)


def test_seeds_of_one_method_are_one_method(make_run):
    generator = np.random.default_rng(3)
    runs = {"base": make_run((generator.random(300) < 0.6).astype(int).tolist())}
    for method, share in (("GRPO", 0.7), ("GSPO", 0.62)):
        for seed in range(3):
            runs[f"{method}{seed}"] = make_run((generator.random(300) < share).astype(int).tolist())
    groups = {name: [f"{name}{seed}" for seed in range(3)] for name in ("GRPO", "GSPO")}
    comparison = compare_runs(runs, "base", groups=groups)
    grpo, gspo = comparison.seeds
    assert (grpo.name, grpo.runs, grpo.n) == ("GRPO", ("GRPO0", "GRPO1", "GRPO2"), 300)
    assert grpo.seed_accuracies == tuple(comparison.score(name).accuracy for name in grpo.runs)
    assert grpo.delta == pytest.approx(np.mean([comparison.cell(name).delta for name in grpo.runs]))
    assert [grpo.p_holm, gspo.p_holm] == holm([grpo.p, gspo.p]).tolist()
    (pair,) = comparison.seed_pairs
    assert (pair.base, pair.run) == ("GRPO", "GSPO")
    assert pair.delta == pytest.approx(gspo.delta - grpo.delta)
    assert set(comparison.best[0].probability_best) == {"base", "GRPO", "GSPO"}


def test_the_bootstrap_repeats_by_its_seed(make_run):
    generator = np.random.default_rng(4)
    runs = {name: make_run(generator.integers(0, 2, 50).tolist()) for name in ("base", "x", "y")}
    once, again, other = (compare_runs(runs, "base", draws=500, seed=seed) for seed in (1, 1, 2))
    assert once == again
    assert once.best != other.best
    assert once.cells == other.cells


def test_comparison_json_holds_what_was_agreed(seed_runs):
    comparison = compare_runs(seed_runs, "Base", folders={"GRPO": "runs/grpo"})
    data = json.loads(json.dumps(comparison.to_json(), allow_nan=False))
    agreed = {"n", "accuracy", "ci", "delta", "delta_ci", "b", "c", "p", "p_holm", "method"}
    assert data["schema"] == 1
    for cell in data["cells"] + data["pairs"]:
        assert agreed <= set(cell)
    assert {(cell["run"], cell["base"]) for cell in data["pairs"]} == {
        ("GSPO", "GRPO"),
        ("CHORD", "GRPO"),
        ("CHORD", "GSPO"),
    }
    assert data["facts"][1]["folder"] == "runs/grpo"
    assert data["facts"][1]["scores"][0]["accuracy"] == 1013 / 1122
    assert data["slices"][0] == ["all", "all"]


def test_real_systems(make_run, data_dir):
    with (data_dir / "paired" / "igakuqa_2018_2022_correct.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    fields = {
        "id": [row["problem_id"] for row in rows],
        "year": [1906 + int(row["problem_id"][:3]) for row in rows],
        "text_only": [row["text_only"] == "1" for row in rows],
    }
    systems = ("gpt4", "chatgpt", "gpt3")
    runs = {system: make_run([int(row[system]) for row in rows], **fields) for system in systems}
    comparison = compare_runs(runs, "gpt4")
    assert comparison.names("year") == ["2018", "2019", "2020", "2021", "2022"]
    assert (comparison.cell("chatgpt").b, comparison.cell("chatgpt").c) == (563, 113)
    assert (comparison.cell("gpt3", base="chatgpt").b, comparison.cell("gpt3", base="chatgpt").c) == (493, 209)
    assert sum(cell.b for cell in comparison.cells if cell.slice_kind == "year" and cell.run == "chatgpt") == 563
    assert comparison.best[0].winners == ("gpt4",)


def test_other_questions_are_refused_with_run_and_ids(make_run):
    base = make_run("10", id=["116A1", "116A2"], year=2022)
    with pytest.raises(
        MedgrpoError, match=r"'x'.*different questions: only the base has 116A2.*only the run has 116A3"
    ):
        compare_runs({"base": base, "x": make_run("10", id=["116A1", "116A3"], year=2022)}, "base")
    with pytest.raises(MedgrpoError, match=r"'x'.*differ in the year of 116A1"):
        compare_runs({"base": base, "x": make_run("10", id=["116A1", "116A2"], year=2021)}, "base")
    with pytest.raises(MedgrpoError, match="every question of the runs is excluded"):
        compare_runs({name: make_run("10", scoring="excluded") for name in ("base", "x")}, "base")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"base": "nobody"}, r"no run is called 'nobody'"),
        ({"method": "fisher"}, r"unknown method 'fisher': choose from exact"),
        ({"family": "everything"}, r"unknown family"),
        ({"correction": "bonferroni"}, r"unknown correction"),
        ({"alpha": 5}, r"alpha has to lie between 0 and 1, not 5"),
        ({"power": 1.0}, r"power has to lie"),
        ({"draws": 0}, r"draws has to be 1 or more"),
        ({"groups": {"G": ["x"]}}, r"group 'G': has 1 run"),
        ({"groups": {"G": ["x", "nobody"]}}, r"group 'G': no run is called 'nobody'"),
        ({"groups": {"G": ["x", "base"]}}, r"'base' is the base"),
        ({"groups": {"G": ["x", "y"], "H": ["x", "y"]}}, r"'x' stands in group 'G' already"),
        ({"groups": {"G": ["x", "x"]}}, r"'x' stands in group 'G' already"),
        ({"groups": {"x": ["x", "y"]}}, r"a run has this name already"),
    ],
)
def test_bad_options_are_refused(make_run, options, reason):
    runs = {name: make_run("1010") for name in ("base", "x", "y")}
    with pytest.raises(MedgrpoError, match=reason):
        compare_runs(runs, **{"base": "base", **options})


def test_a_base_alone_is_refused(make_run):
    with pytest.raises(MedgrpoError, match="only the base 'base' was given"):
        compare_runs({"base": make_run("10")}, "base")
    with pytest.raises(MedgrpoError, match="over two questions"):
        compare_runs({n: make_run("1") for n in ("base", "x", "y")}, "base", groups={"G": ["x", "y"]})


def test_a_negative_seed_is_refused(make_run):
    with pytest.raises(MedgrpoError, match="seed has to be 0 or more, not -1"):
        compare_runs({"a": make_run("10"), "b": make_run("11")}, "a", seed=-1)


def test_the_folder_is_recorded_without_a_machines_own_tree(make_run):
    runs = {name: make_run("10") for name in ("a", "b", "c")}
    folders = {"a": "/home/somebody/runs/base", "b": "runs/after"}
    comparison = compare_runs(runs, "a", folders=folders)
    assert [row["folder"] for row in comparison.to_json()["facts"]] == ["base", "runs/after", ""]
