import json

from medgrpo.evaluation.run_info import build_run_info


def test_run_info_is_json_and_says_what_is_unknown():
    info = build_run_info(
        model="m",
        revision=None,
        prompt_template=None,
        sampling={"temperature": 0.0},
        seed=3,
        questions="q.jsonl",
    )
    assert json.loads(json.dumps(info)) == info
    assert (info["revision"], info["seed"], info["questions"]) == (None, 3, "q.jsonl")
    assert {"model", "prompt_template", "sampling", "versions", "commit"} <= set(info)
