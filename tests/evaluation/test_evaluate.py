import json
import time

import pytest

from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.evaluate import evaluate_loaded_model, evaluate_model
from medgrpo.evaluation.load import load_model
from medgrpo.evaluation.score import read_run
from medgrpo.exams.question import Question

QUESTIONS = [
    Question(f"B{i}", "正解です" * i, {"a": "疾患", "b": "問題"}, [["a"]], exam="e", year=2020 + i % 2)
    for i in range(1, 6)
]
SHORT = {"max_new_tokens": 8, "progress": False}


@pytest.fixture
def checkpoint(model, tokenizer, tmp_path):
    folder = tmp_path / "checkpoint"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_saved_model_is_evaluated_into_a_run(checkpoint, model, tokenizer, tmp_path):
    run = evaluate_model(str(checkpoint), QUESTIONS, tmp_path / "run", batch_size=2, seed=5, **SHORT)
    assert run == read_run(tmp_path / "run")
    assert [sample.id for sample in run.samples] == ["B1", "B2", "B3", "B4", "B5"]
    assert run.run_info["model"] == str(checkpoint)
    assert run.run_info["revision"] is None
    assert run.run_info["seed"] == 5
    sampling = run.run_info["sampling"]
    assert (sampling["backend"], sampling["temperature"], sampling["max_new_tokens"]) == (
        "transformers",
        0.0,
        8,
    )
    assert run.run_info["prompt_template"]["first_prompt"].endswith("<bos>assistant\n")

    in_memory = evaluate_loaded_model(model, tokenizer, QUESTIONS, tmp_path / "run2", name="trained", **SHORT)
    assert in_memory.samples == run.samples
    assert in_memory.run_info["model"] == "trained"


def test_an_output_folder_that_cannot_be_written_is_found_out_before_generating(
    model, tokenizer, tmp_path, monkeypatch
):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(type(model), "generate", lambda *_, **__: pytest.fail("generated first"))
    with pytest.raises(MedgrpoError, match="cannot be written"):
        evaluate_loaded_model(model, tokenizer, QUESTIONS, tmp_path / "file" / "run", name="m", **SHORT)


def test_limit_keeps_the_first_questions(checkpoint, tmp_path):
    run = evaluate_model(str(checkpoint), QUESTIONS, tmp_path / "run", limit=2, **SHORT)
    assert [sample.id for sample in run.samples] == ["B1", "B2"]
    with pytest.raises(MedgrpoError, match="limit"):
        evaluate_model(str(checkpoint), QUESTIONS, tmp_path / "run", limit=0, **SHORT)
    with pytest.raises(MedgrpoError, match="no questions"):
        evaluate_model(str(checkpoint), [], tmp_path / "run", **SHORT)


@pytest.mark.parametrize(
    "name",
    ["./nowhere", "/nowhere/model", "runs/gspo/checkpoint-5", "~/no-model", "../x", "here/missing"],
)
def test_a_path_that_is_not_there_is_never_looked_for_on_the_network(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    monkeypatch.setattr("medgrpo.evaluation.load.urlopen", lambda *_, **__: pytest.fail("asked the network"))
    with pytest.raises(MedgrpoError, match="no such folder"):
        load_model(name)


def test_folders_and_files_that_hold_no_model(tmp_path, checkpoint):
    with pytest.raises(MedgrpoError, match=r"no config\.json"):
        load_model(str(tmp_path))
    (tmp_path / "file.bin").write_bytes(b"")
    with pytest.raises(MedgrpoError, match="is a file"):
        load_model(str(tmp_path / "file.bin"))
    with pytest.raises(MedgrpoError, match="nor a name on the Hub"):
        load_model("a model with blanks")
    (checkpoint / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(MedgrpoError, match="cannot be loaded"):
        load_model(str(checkpoint))
    (checkpoint / "config.json").write_text(json.dumps({"model_type": "no-such-type"}))
    with pytest.raises(MedgrpoError, match="cannot be loaded"):
        load_model(str(checkpoint))


def test_a_hub_name_without_network_fails_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("medgrpo.evaluation.load.is_offline_mode", lambda: False)
    start = time.monotonic()
    with pytest.raises(MedgrpoError, match="Hub cannot be asked"):
        load_model("someone/no-such-model-anywhere")
    assert time.monotonic() - start < 5
    monkeypatch.setattr("medgrpo.evaluation.load.is_offline_mode", lambda: True)
    with pytest.raises(MedgrpoError, match="HF_HUB_OFFLINE"):
        load_model("someone/no-such-model-anywhere")
