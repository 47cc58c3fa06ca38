import pytest

from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.choose_backend import open_backend
from medgrpo.evaluation.request import EvaluationRequest

REQUEST = {"model": "tiny", "questions": "mini_exam", "out": "runs/x"}


def test_years_and_limit_choose_the_questions():
    chosen = EvaluationRequest(**REQUEST, years="2023,2025", limit=70).load_questions()
    assert [len([q for q in chosen if q.year == year]) for year in (2023, 2025)] == [65, 5]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"model": None}, "model is missing"),
        ({"questions": None}, "questions is missing"),
        ({"out": None}, "out is missing"),
        ({"limit": 0}, "limit"),
        ({"years": "1999"}, "1999"),
    ],
)
def test_what_is_missing_or_selects_nothing(options, told):
    with pytest.raises(MedgrpoError, match=told):
        EvaluationRequest(**{**REQUEST, **options}).load_questions()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"chat_template_kwargs": '{"add_generation_prompt": true}'}, "add_generation_prompt is set by the evaluation"),
        ({"chat_template_kwargs": '{"return_dict": false}'}, "return_dict is set by the evaluation itself"),
        ({"base_url": "http://127.0.0.1:1/v1"}, "base_url is an option of the backend openai, not of transformers"),
        ({"engine_args": "{}"}, "engine_args is an option of the backend vllm"),
        ({"backend": "openai", "engine_args": "{}"}, "engine_args is an option of the backend vllm, not of openai"),
        ({"backend": "openai"}, "needs an address"),
        ({"backend": "openai", "base_url": "127.0.0.1:8000"}, "is no address"),
        ({"backend": "openai", "base_url": "http://me:secret@h/v1"}, "api-key-env"),
        ({"backend": "openai", "base_url": "http://h/v1", "api_key_env": "NO_SUCH_NAME"}, "NO_SUCH_NAME"),
        ({"backend": "openai", "base_url": "http://h/v1", "revision": "v1"}, "revision"),
        ({"backend": "tgi"}, "'tgi'"),
        ({"chat_template_kwargs": "{thinking"}, "chat_template_kwargs .* not JSON"),
        ({"chat_template_kwargs": "[1]"}, "JSON object"),
        ({"temperature": -1.0}, "temperature"),
        ({"batch_size": 0}, "batch_size"),
        ({"revision": "v1"}, "folder, which has no revision 'v1'"),
    ],
)
def test_options_that_do_not_fit_together(options, told):
    with pytest.raises(MedgrpoError, match=told) as refused:
        open_backend(EvaluationRequest(**{**REQUEST, **options}))
    assert "secret" not in str(refused.value)


def test_the_chat_template_is_given_its_options(model, tokenizer, tmp_path):
    tokenizer.chat_template += "{% if thinking is defined %}{{ 'think' if thinking else 'no' }}{% endif %}"
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    request = EvaluationRequest(model=str(tmp_path), chat_template_kwargs='{"thinking": false}')
    backend, _ = open_backend(request)
    assert backend.render([{"role": "user", "content": "a"}]).endswith("assistant\nno")
    assert backend._encode([{"role": "user", "content": "a"}])[-2:] == tokenizer.convert_tokens_to_ids(["n", "o"])
    assert backend.settings["chat_template_kwargs"] == {"thinking": False}
