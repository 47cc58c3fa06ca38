"""What would be pushed: these files and no others, whatever lies in the run's folder."""

import json

import numpy as np
import pytest
from finished_runs import CANARIES, HOME, QUESTION_TEXT, make_finished_run, make_record
from huggingface_hub import parse_eval_result_entries
from safetensors.numpy import save_file
from yaml import safe_load

from medgrpo.comparison.reload import read_comparison
from medgrpo.comparison.write import write_comparison
from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.samples import read_run, write_run
from medgrpo.hub.push import PushRequest, write_push
from medgrpo.hub.record import read_record, write_record

PUSHED = {
    "README.md", "config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "model.safetensors",
    "evaluation/after_run.json", "evaluation/before_run.json", "evaluation/comparison.json",
    "figures/learning_curve.png", "figures/differences.png",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    return make_finished_run(tmp_path / "run")


def names(pushed) -> set[str]:
    return {path.as_posix() for path in pushed.files}


def test_only_what_is_meant_and_no_secret_in_it(folder):
    pushed = write_push(PushRequest(folder, "lab/x"))
    assert names(pushed) == PUSHED
    for path in pushed.files:
        content = (pushed.folder / path).read_bytes()
        for canary in CANARIES:
            assert canary.encode() not in content, path
    assert json.loads((pushed.folder / "config.json").read_text()) == {
        "model_type": "qwen3", "_name_or_path": "base-8b", "hidden_size": 8}  # fmt: skip
    # A token of the vocabulary that looks like a path stays.
    assert json.loads((pushed.folder / "tokenizer_config.json").read_text())["pad_token"] == "/a/b"


def test_weights_are_linked_and_a_second_time_gives_the_same_bytes(folder):
    first = write_push(PushRequest(folder, "lab/x"))
    assert (first.folder / "model.safetensors").stat().st_ino == (folder / "model.safetensors").stat().st_ino
    before = {path: (first.folder / path).read_bytes() for path in first.files}
    second = write_push(PushRequest(folder, "lab/x"))
    assert {path: (second.folder / path).read_bytes() for path in second.files} == before


def test_evaluation_keeps_its_numbers(folder):
    pushed = write_push(PushRequest(folder, "lab/x"))
    own = json.loads((folder / "comparison" / "comparison.json").read_text(encoding="utf-8"))
    public = json.loads((pushed.folder / "evaluation" / "comparison.json").read_text(encoding="utf-8"))
    for key in ("cells", "pairs", "families", "best", "slices", "confidence"):
        assert public[key] == own[key]
    assert [f["scores"] for f in public["facts"]] == [f["scores"] for f in own["facts"]]
    run = json.loads((pushed.folder / "evaluation" / "after_run.json").read_text(encoding="utf-8"))
    assert run["model"] == "base-8b (GRPO)"
    assert run["sampling"] == {"backend": "vllm", "temperature": 0.0, "max_new_tokens": 64}
    assert "first_prompt" not in run["prompt_template"]


def test_comparison_survives_reading_and_writing(folder, tmp_path):
    path = write_comparison(tmp_path / "again", read_comparison(folder / "comparison"))
    assert path.read_bytes() == (folder / "comparison" / "comparison.json").read_bytes()


def test_samples_only_when_asked_for(folder):
    pushed = write_push(PushRequest(folder, "lab/x", with_samples=True))
    assert names(pushed) == PUSHED | {"evaluation/samples.jsonl"}
    assert QUESTION_TEXT in (pushed.folder / "evaluation" / "samples.jsonl").read_text(encoding="utf-8")


def test_benchmark_file_is_read_by_the_hubs_own_parser(folder):
    pushed = write_push(PushRequest(folder, "lab/x", benchmark="lab/exam:all"))
    text = (pushed.folder / ".eval_results" / "medgrpo.yaml").read_text(encoding="utf-8")
    (entry,) = parse_eval_result_entries(safe_load(text))
    assert (entry.dataset_id, entry.task_id, entry.value) == ("lab/exam", "all", 0.48)


def test_shards_and_adapters(folder):
    (folder / "model.safetensors").unlink()
    for name in ("model-00001-of-00002", "model-00002-of-00002"):
        save_file({name: np.zeros(4)}, folder / f"{name}.safetensors")
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    found = names(write_push(PushRequest(folder, "lab/x")))
    assert set(index["weight_map"].values()) | {"model.safetensors.index.json"} <= found
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(MedgrpoError, match="names model-00002-of-00002.safetensors, which is not there"):
        write_push(PushRequest(folder, "lab/x"))
    for path in folder.glob("model*"):
        path.unlink()
    (folder / "config.json").unlink()
    save_file({"lora": np.zeros(4)}, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": f"{HOME}/models/base-8b"}))
    pushed = write_push(PushRequest(folder, "lab/x"))
    assert json.loads((pushed.folder / "adapter_config.json").read_text()) == {"base_model_name_or_path": "base-8b"}
    card = (pushed.folder / "README.md").read_text(encoding="utf-8")
    assert "library_name: peft" in card
    assert "AutoPeftModelForCausalLM" in card


def test_weights_that_are_no_safetensors(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(MedgrpoError, match="pytorch_model.bin: only safetensors"):
        write_push(PushRequest(folder, "lab/x"))


def test_a_folder_of_somebody_else_is_left_alone(folder, tmp_path):
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "thesis.tex").write_text("years of work")
    with pytest.raises(MedgrpoError, match=r"thesis.tex.*choose another --out"):
        write_push(PushRequest(folder, "lab/x", out=other))
    # Neither is a model that no push wrote.
    (other / "thesis.tex").rename(other / "config.json")
    with pytest.raises(MedgrpoError, match="choose another --out"):
        write_push(PushRequest(folder, "lab/x", out=other))
    assert (other / "config.json").read_text() == "years of work"
    # Least of all the run itself.
    with pytest.raises(MedgrpoError, match="choose another --out"):
        write_push(PushRequest(folder, "lab/x", out=folder))
    assert (folder / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("experiment.json", "no experiment.json: not a run of a recipe"),
        ("run.json", "no run.json"),
        ("after/run.json", "no run.json: not a scored run"),
        ("comparison/comparison.json", "no comparison.json: write one with `medgrpo compare`"),
        ("metrics.jsonl", "missing or empty"),
        ("config.json", "weights without a config.json"),
    ],
)
def test_unfinished_runs(folder, missing, said):
    (folder / missing).unlink()
    with pytest.raises(MedgrpoError, match=said):
        write_push(PushRequest(folder, "lab/x"))


@pytest.mark.parametrize("name", ["experiment.json", "run.json", "comparison/comparison.json", "config.json"])
@pytest.mark.parametrize("content", ["", "[1]", '{"schema": 1}', "{"])
def test_damaged_files_are_named(folder, name, content):
    (folder / name).write_text(content)
    if (name, content) in {("config.json", '{"schema": 1}'), ("config.json", "[1]")}:
        write_push(PushRequest(folder, "lab/x"))
        return
    with pytest.raises(MedgrpoError, match=name.split("/")[-1]):
        write_push(PushRequest(folder, "lab/x"))


def test_comparison_of_other_samples_is_refused(folder):
    run = read_run(folder / "before")
    write_run(folder / "after", run.samples, {k: v for k, v in run.run_info.items() if k != "schema"})
    with pytest.raises(MedgrpoError, match=r"48 of 100 right.*not the one scored here \(40 of 100\)"):
        write_push(PushRequest(folder, "lab/x"))


def test_which_of_several_runs(tmp_path):
    folder = make_finished_run(tmp_path / "run", extra=set(range(50)))
    assert names(write_push(PushRequest(folder, "lab/x"))) == PUSHED
    with pytest.raises(MedgrpoError, match="no run 'DPO': choose with --run from GRPO, Other"):
        write_push(PushRequest(folder, "lab/x", run="DPO"))
    with pytest.raises(MedgrpoError, match="the comparison's Other"):
        write_push(PushRequest(folder, "lab/x", run="Other"))


@pytest.mark.parametrize("name", ["", "a/b/c", "lab/", "lab/x y", "-x", "lab/" + "x" * 97, "../x"])
def test_names_that_the_hub_cannot_have(folder, name):
    with pytest.raises(MedgrpoError, match="--repo-id"):
        write_push(PushRequest(folder, name))


def test_the_command_that_tries_again(folder):
    request = PushRequest(folder / "a b", "lab/x", private=False, lang="en", run="GRPO", scored="igaku")
    assert request.command() == (
        f"medgrpo push '{folder}/a b' --repo-id lab/x --public --lang en --run GRPO --scored igaku"
    )


def test_record_survives(tmp_path):
    record = make_record("CHORD", "Qwen/Qwen3-8B", "f" * 40)
    write_record(tmp_path, record)
    assert read_record(tmp_path) == record
