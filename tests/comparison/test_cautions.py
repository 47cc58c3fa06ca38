import pytest

from medgrpo.comparison.compare import compare_runs

GREEDY = {"model": "m", "seed": 0, "sampling": {"temperature": 0.0, "max_new_tokens": 1024}}


def cautions(runs, **options):
    return {caution.kind: caution for caution in compare_runs(runs, "base", **options).cautions}


def long(outcomes):
    return outcomes * 20


def test_like_runs_need_no_caution(make_run):
    runs = {"base": make_run(long("1010"), GREEDY), "x": make_run(long("1110"), GREEDY)}
    assert cautions(runs) == {}


def test_other_decoding_is_told_with_what_differs(make_run):
    hot = {**GREEDY, "sampling": {"temperature": 0.9, "max_new_tokens": 50}}
    found = cautions({"base": make_run(long("1010"), GREEDY), "x": make_run(long("1110"), hot)})
    assert "temperature 0.0 / 0.9, max_new_tokens 1024 / 50" in found["decoding"].english
    assert "x" in found["sampled"].english
    assert "復号条件が異なる" in found["decoding"].japanese


def test_unknown_decoding_is_told(make_run):
    found = cautions({"base": make_run(long("1010"), GREEDY), "x": make_run(long("1110"), {"sampling": None})})
    assert found["decoding"].english.startswith("It is not known how the answers of x")


def test_another_prompt_is_told(make_run):
    runs = {
        "base": make_run(long("1010"), {**GREEDY, "prompt_template": {"user": "問題"}}),
        "x": make_run(long("1110"), {**GREEDY, "prompt_template": {"user": "質問"}}),
    }
    assert "another prompt" in cautions(runs)["prompt"].english


def test_unreadable_answers_are_told(make_run):
    failing = make_run(long("1110"), GREEDY, parse_failure=[i < 3 for i in range(80)], parsed=None)
    found = cautions({"base": make_run(long("1010"), GREEDY), "x": failing})
    assert "3/80 (3.8 %)" in found["parse_failures"].english


def test_the_same_completions_are_told(make_run):
    assert "very completions" in cautions({n: make_run(long("1010")) for n in ("base", "x")})["identical"].english
    other = make_run(long("1010"), completion="他の説明。[ans]a[/ans]")
    assert "identical" not in cautions({"base": make_run(long("1010")), "x": other})


def test_ungrouped_seeds_are_told(make_run):
    runs = {"base": make_run(long("1010"), GREEDY)}
    for seed in range(2):
        runs[f"x{seed}"] = make_run(long("1110"), {**GREEDY, "model": "grpo", "seed": seed})
    assert "--group" in cautions(runs)["seeds"].english
    assert "seeds" not in cautions(runs, groups={"GRPO": ["x0", "x1"]})


def test_small_slices_are_told(make_run):
    departments = ["内科"] * 60 + ["皮膚科"] * 20
    runs = {n: make_run(long(o), GREEDY, department=departments) for n, o in (("base", "1010"), ("x", "1110"))}
    assert "皮膚科 (20)" in cautions(runs)["small_slices"].english
    assert "内科" not in cautions(runs)["small_slices"].english


@pytest.mark.parametrize("info", [{}, {"sampling": "greedy", "model": 3, "seed": "one"}, {"sampling": {}}])
def test_a_run_json_that_says_little_is_no_obstacle(make_run, info):
    comparison = compare_runs({"base": make_run("1010", info), "x": make_run("1110", info)}, "base")
    assert comparison.facts_of("x").model is None
