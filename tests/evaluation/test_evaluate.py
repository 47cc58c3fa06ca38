import json
import time

import pytest

from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.backend import Sampling
from medgrpo.evaluation.choose_backend import open_backend
from medgrpo.evaluation.evaluate import Share, evaluate, evaluate_in_memory
from medgrpo.evaluation.generate import TransformersBackend
from medgrpo.evaluation.load import ModelIdentity, load_model
from medgrpo.evaluation.request import EvaluationRequest
from medgrpo.evaluation.score import read_run
from medgrpo.exams.question import Question

QUESTIONS = [
    Question(f"B{i}", "正解です" * i, {"a": "疾患", "b": "問題"}, [["a"]], exam="e", year=2020 + i % 2)
    for i in range(1, 6)
]


@pytest.fixture
def checkpoint(model, tokenizer, tmp_path):
    folder = tmp_path / "checkpoint"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


class Scripted:
    """A backend that answers what it is told, notes what it was asked, and fails at the end if told so."""

    def __init__(self, texts, sampling=None, fails=False, **settings):
        self.texts, self.fails, self.asked = texts, fails, []
        self.sampling = sampling or Sampling()
        self.settings = {"backend": "scripted", "temperature": self.sampling.temperature, **settings}
        self.placement = {"batch_size": 1}

    def render(self, prompt):
        return None

    def complete(self, prompts):
        self.asked += prompts
        for name in prompts:
            if name in self.texts:
                yield name, self.texts[name]
        if self.fails:
            raise MedgrpoError("the server is gone")


ANSWERS = {question.id: f"根拠。[ans]{'ab'[i % 2]}[/ans]" for i, question in enumerate(QUESTIONS)}
MODEL = ModelIdentity("m", files="1")


def run(backend, out_dir, **options):
    return evaluate(backend, QUESTIONS, out_dir, **{"model": MODEL, "progress": False, **options})


def test_a_saved_model_is_evaluated_into_a_run(checkpoint, model, tokenizer, tmp_path):
    request = EvaluationRequest(model=str(checkpoint), max_new_tokens=8, batch_size=2, seed=5)
    backend, identity = open_backend(request)
    scored = run(backend, tmp_path / "run", model=identity)
    assert scored == read_run(tmp_path / "run")
    assert [path.name for path in sorted((tmp_path / "run").iterdir())] == ["run.json", "samples.jsonl"]
    assert [sample.id for sample in scored.samples] == ["B1", "B2", "B3", "B4", "B5"]
    info = scored.run_info
    assert (info["model"], info["revision"], info["seed"], info["policy"]) == (str(checkpoint), None, 5, "board")
    sampling = info["sampling"]
    assert (sampling["backend"], sampling["temperature"], sampling["max_new_tokens"]) == ("transformers", 0.0, 8)
    assert sampling["backend_version"] == info["versions"]["transformers"]
    assert info["placement"] == {"batch_size": 2}
    assert info["prompt_template"]["first_prompt"].endswith("<bos>assistant\n")
    assert "[ans]" in info["prompt_template"]["number_instruction"]

    in_memory = evaluate_in_memory(
        TransformersBackend(model, tokenizer, Sampling(max_new_tokens=8)),
        QUESTIONS,
        tmp_path / "run2",
        model=ModelIdentity("trained"),
        progress=False,
    )
    assert in_memory.samples == scored.samples
    assert in_memory.run_info["model"] == "trained"


def test_an_output_folder_that_cannot_be_written_is_found_out_before_generating(tmp_path):
    (tmp_path / "file").write_text("")
    backend = Scripted(ANSWERS)
    with pytest.raises(MedgrpoError, match="cannot be written"):
        run(backend, tmp_path / "file" / "run")
    assert backend.asked == []


def test_what_a_backend_gave_before_it_failed_is_not_asked_again(tmp_path):
    first = Scripted(dict(list(ANSWERS.items())[:2]), fails=True)
    with pytest.raises(MedgrpoError, match=r"server is gone \(2 of 5 completions are kept in .*partial"):
        run(first, tmp_path)
    second = Scripted(ANSWERS)
    scored = run(second, tmp_path)
    assert second.asked == ["B3", "B4", "B5"]
    assert {sample.id: sample.completion for sample in scored.samples} == ANSWERS
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["run.json", "samples.jsonl"]


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize(
    ("options", "backend", "told"),
    [
        ({}, {"sampling": Sampling(0.5)}, "sampling.temperature was 0.0, is now 0.5"),
        ({}, {"sampling": Sampling(seed=1)}, "seed was 0, is now 1"),
        ({"model": ModelIdentity("n", files="1")}, {}, "model was 'm', is now 'n'"),
        ({"model": ModelIdentity("m", "abc", "1")}, {}, "revision was None, is now 'abc'"),
        ({"model": ModelIdentity("m", files="2")}, {}, "files was '1', is now '2'"),
        ({}, {"dtype": "bfloat16"}, "sampling.dtype was None, is now 'bfloat16'"),
    ],
)
def test_other_settings_are_refused_and_named(finished, options, backend, told, tmp_path):
    if finished:
        run(Scripted(ANSWERS), tmp_path)
    else:
        with pytest.raises(MedgrpoError, match="kept"):
            run(Scripted({"B1": "x"}, fails=True), tmp_path)
    with pytest.raises(MedgrpoError) as refused:
        run(Scripted(ANSWERS, **backend), tmp_path, **options)
    assert told in str(refused.value)
    assert "--overwrite" in str(refused.value)
    anew = Scripted(ANSWERS, **backend)
    run(anew, tmp_path, overwrite=True, **options)
    assert len(anew.asked) == 5


def test_other_prompts_are_refused_and_the_order_of_the_questions_is_free(tmp_path):
    with pytest.raises(MedgrpoError, match="kept"):
        run(Scripted({"B1": "x"}, fails=True), tmp_path)
    with pytest.raises(MedgrpoError, match="other questions or prompts"):
        evaluate(Scripted(ANSWERS), QUESTIONS[:4], tmp_path, model=MODEL, progress=False)
    scored = evaluate(Scripted(ANSWERS), QUESTIONS[::-1], tmp_path, model=MODEL, progress=False)
    assert [sample.id for sample in scored.samples] == ["B5", "B4", "B3", "B2", "B1"]
    assert scored.samples[-1].completion == "x"


def test_a_finished_run_is_only_scored_again_under_another_policy(tmp_path):
    excluded = [Question(**{**q.to_json(), "scoring": "excluded"}) if q.id == "B1" else q for q in QUESTIONS]
    board = evaluate(Scripted(ANSWERS), excluded, tmp_path, model=MODEL, progress=False)
    silent = Scripted({})
    key = evaluate(silent, excluded, tmp_path, model=MODEL, policy="key", progress=False)
    assert silent.asked == []
    assert [sum(s.counted for s in r.samples) for r in (board, key)] == [4, 5]
    assert read_run(tmp_path).run_info["policy"] == "key"


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path):
    (tmp_path / "run.json").write_text('{"steps": 100}')
    with pytest.raises(MedgrpoError, match="no schema"):
        run(Scripted(ANSWERS), tmp_path)
    assert (tmp_path / "run.json").read_text() == '{"steps": 100}'


def test_processes_share_the_questions(tmp_path):
    others = []

    def gather(mine):
        return [pair for part in (mine, *others) for pair in part]

    shares = [Scripted(ANSWERS) for _ in range(2)]
    keep = Share(1, 2, lambda mine: others.append(mine) or mine)
    options = {"model": MODEL, "progress": False}
    assert evaluate_in_memory(shares[1], QUESTIONS, tmp_path, share=keep, **options) is None
    scored = evaluate_in_memory(shares[0], QUESTIONS, tmp_path, share=Share(0, 2, gather), **options)
    assert [share.asked for share in shares] == [["B1", "B3", "B5"], ["B2", "B4"]]
    assert {sample.id: sample.completion for sample in scored.samples} == ANSWERS


def test_an_unknown_policy_is_found_out_before_generating(tmp_path):
    backend = Scripted(ANSWERS)
    with pytest.raises(MedgrpoError, match="'bord'"):
        run(backend, tmp_path, policy="bord")
    assert backend.asked == []


def test_questions_that_cannot_be_evaluated_on(tmp_path):
    with pytest.raises(MedgrpoError, match="no questions"):
        evaluate(Scripted({}), [], tmp_path, model=MODEL)
    with pytest.raises(MedgrpoError, match="B1"):
        evaluate(Scripted({}), [QUESTIONS[0], QUESTIONS[0]], tmp_path, model=MODEL)


def test_progress_goes_to_standard_error_and_counts_what_was_kept(tmp_path, capsys):
    with pytest.raises(MedgrpoError, match="kept"):
        run(Scripted({"B1": "x"}, fails=True), tmp_path)
    run(Scripted(ANSWERS), tmp_path, progress=True)
    captured = capsys.readouterr()
    assert "1/5" in captured.err and "5/5" in captured.err
    assert captured.out == ""


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
