import logging
import warnings

import pytest
import torch
from transformers import GenerationConfig

from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.backend import Sampling
from medgrpo.evaluation.generate import TransformersBackend

TEXTS = [
    "問題 a",
    "い",
    "正解です。答",
    "疾患、疾患、疾患、疾患",
    "abc def",
    "お",
    "1.2",
    "[ans]a[/ans]",
    "問",
    "z" * 60,
]
PROMPTS = [[{"role": "user", "content": text}] for text in TEXTS]


def generate(model, tokenizer, prompts=PROMPTS, batch_size=4, **options):
    """Completions in the order of `prompts`, whose ids are their places."""
    sampling = Sampling(**{"max_new_tokens": 24, **options})
    backend = TransformersBackend(model, tokenizer, sampling, batch_size)
    texts = dict(backend.complete({str(i): prompt for i, prompt in enumerate(prompts)}))
    return [texts[str(i)] for i in range(len(prompts))]


def test_batches_of_one_and_eight_give_the_same_completions_in_order(model, tokenizer):
    one_by_one = [generate(model, tokenizer, [prompt], batch_size=1)[0] for prompt in PROMPTS]
    assert len(set(one_by_one)) > 5, "the model has to answer differently for the order to show"
    assert generate(model, tokenizer, batch_size=1) == one_by_one
    assert generate(model, tokenizer, batch_size=8) == one_by_one


def test_greedy_picks_the_most_likely_token_of_a_plain_forward_pass(model, tokenizer):
    ids = tokenizer.apply_chat_template(PROMPTS[2], add_generation_prompt=True)["input_ids"]
    expected = []
    model.eval()
    with torch.no_grad():
        for _ in range(24):
            token = int(model(torch.tensor([ids + expected])).logits[0, -1].argmax())
            if token == tokenizer.eos_token_id:
                break
            expected.append(token)
    assert generate(model, tokenizer)[2] == tokenizer.decode(expected, skip_special_tokens=True)


def test_sampling_repeats_by_seed_and_differs_between_seeds(model, tokenizer):
    first = generate(model, tokenizer, temperature=0.9, seed=1)
    assert generate(model, tokenizer, temperature=0.9, seed=1) == first
    assert generate(model, tokenizer, temperature=0.9, seed=2) != first
    assert first != generate(model, tokenizer)


def test_a_sampled_completion_does_not_depend_on_its_batch(model, tokenizer):
    """Each question's text follows from the seed and its id: an interrupted run ends as an unbroken one."""
    model.double()  # float noise of the padding would turn a tie now and then
    sampling = Sampling(0.9, 24, seed=3)
    prompts = {text: prompt for text, prompt in zip(TEXTS, PROMPTS, strict=True)}
    whole = dict(TransformersBackend(model, tokenizer, sampling, 10).complete(prompts))
    assert len(set(whole.values())) == len(whole)
    for size in (1, 3):
        some = dict(list(prompts.items())[::-1][:7])
        assert dict(TransformersBackend(model, tokenizer, sampling, size).complete(some)).items() <= whole.items()


def test_sampling_follows_the_softmax(model, tokenizer):
    """Frequencies of the first token against the model's own probabilities (chi-square, 3,000 draws)."""
    from scipy.stats import chisquare

    ids = tokenizer.apply_chat_template(PROMPTS[0], add_generation_prompt=True)["input_ids"]
    model.eval()
    with torch.no_grad():
        probabilities = (model(torch.tensor([ids])).logits[0, -1].double() / 1.7).softmax(-1)
    n = 3000
    backend = TransformersBackend(model, tokenizer, Sampling(1.7, 1), 1000)
    drawn = list(dict(backend.complete({str(i): PROMPTS[0] for i in range(n)})).values())
    tokens = [token for token in range(len(probabilities)) if token not in tokenizer.all_special_ids]
    counts = [drawn.count(tokenizer.decode([token])) for token in tokens]
    expected = [float(probabilities[token]) * n for token in tokens]
    rest = (n - sum(counts), n - sum(expected))  # special tokens, which are decoded as nothing
    common = [(c, e) for c, e in zip([*counts, rest[0]], [*expected, rest[1]], strict=True) if e > 5]
    common.append((n - sum(c for c, _ in common), n - sum(e for _, e in common)))
    assert len(common) > 10
    assert chisquare(*zip(*common, strict=True)).pvalue > 1e-4


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_a_training_run_is_left_undisturbed(model, tokenizer, temperature):
    model.train()
    model.model.layers[0].eval()  # a frozen part stays in its own mode
    modes = [module.training for module in model.modules()]
    own_config, padding = model.generation_config, dict(tokenizer.backend_tokenizer.padding or {})
    torch.manual_seed(3)
    undisturbed = torch.rand(4)
    torch.manual_seed(3)
    generate(model, tokenizer, temperature=temperature, seed=99)
    assert torch.equal(torch.rand(4), undisturbed)
    assert [module.training for module in model.modules()] == modes
    assert model.generation_config is own_config
    assert tokenizer.padding_side == "right"
    assert dict(tokenizer.backend_tokenizer.padding or {}) == padding


def test_dropout_is_off_and_state_is_restored_when_generation_fails(model, tokenizer):
    model.train()
    assert generate(model, tokenizer) == generate(model, tokenizer)
    own_config = model.generation_config
    state = torch.get_rng_state()
    model.lm_head.register_forward_hook(lambda *_: (_ for _ in ()).throw(RuntimeError("out of memory")))
    with pytest.raises(RuntimeError, match="out of memory"):
        generate(model, tokenizer, temperature=1.0)
    assert model.training
    assert model.generation_config is own_config
    assert torch.equal(torch.get_rng_state(), state)


def test_too_little_memory_says_what_to_lower(model, tokenizer, monkeypatch):
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(type(model), "generate", full)
    with pytest.raises(MedgrpoError, match="4 completions at once: lower batch_size"):
        generate(model, tokenizer)


def test_every_end_of_sequence_id_of_the_generation_config_stops(model, tokenizer):
    plain = generate(model, tokenizer)
    stop = next(c for c in plain[0][3:] if c not in plain[0][:3])
    model.generation_config.eos_token_id = [
        tokenizer.convert_tokens_to_ids("<eos>"),
        tokenizer.convert_tokens_to_ids(stop),
    ]
    # The stop token is an ordinary character here: the text ends before it, in every batch size.
    stopped = generate(model, tokenizer, batch_size=8)
    assert stopped == [text.split(stop)[0].split("<eos>")[0] for text in plain]
    assert stopped == generate(model, tokenizer, batch_size=1)


def test_the_tokenizers_end_token_stops_where_the_generation_config_names_none(model, tokenizer):
    plain = generate(model, tokenizer)
    model.generation_config.eos_token_id = None
    assert generate(model, tokenizer) == plain
    tokenizer.eos_token = None
    with pytest.raises(MedgrpoError, match="end-of-sequence token"):
        generate(model, tokenizer)


def test_no_pad_token_is_needed(model, tokenizer):
    plain = generate(model, tokenizer, batch_size=8)
    tokenizer.pad_token = None
    model.generation_config.pad_token_id = None
    assert generate(model, tokenizer, batch_size=8) == plain


def test_the_models_own_sampling_settings_neither_apply_nor_warn(model, tokenizer, caplog):
    plain = generate(model, tokenizer)
    model.generation_config = GenerationConfig(
        do_sample=True, temperature=0.6, top_k=2, top_p=0.1, repetition_penalty=5.0, eos_token_id=4
    )
    logging.getLogger("transformers").propagate = True
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error")
        assert generate(model, tokenizer) == plain
        generate(model, tokenizer, temperature=0.9)
    assert not caplog.records


def test_sampling_draws_from_the_whole_distribution(model, tokenizer):
    hot = generate(model, tokenizer, PROMPTS[:1] * 200, temperature=100.0, max_new_tokens=1, batch_size=200)
    assert len(set(hot)) > 55, "60 characters are almost equally likely; a default top-k of 50 would show"


def test_text_is_decoded_as_it_is(model, tokenizer):
    """No tidying of blanks before punctuation, no prompt in front, no special tokens."""
    tokens = tokenizer.convert_tokens_to_ids(["a", " ", ".", " ", "!", "\n", "<bos>", "問", " ", "<|im_end|>"])
    model.forward = scripted(model, tokens)
    assert generate(model, tokenizer, PROMPTS[:2]) == ["a . !\n問 ", "a . !\n問 "]


def scripted(model, tokens):
    """A forward pass that says `tokens` one after another, whatever the input."""
    from transformers.modeling_outputs import CausalLMOutputWithPast

    left = iter(tokens)

    def forward(input_ids, **_):
        logits = torch.zeros(len(input_ids), 1, model.config.vocab_size)
        logits[:, :, next(left)] = 1.0
        return CausalLMOutputWithPast(logits=logits)

    return forward


def test_odd_requests(model, tokenizer):
    assert generate(model, tokenizer, []) == []
    assert len(generate(model, tokenizer, PROMPTS[:1] * 3)) == 3
    for options, message in [
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"batch_size": 0}, "batch_size"),
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
    ]:
        with pytest.raises(MedgrpoError, match=message):
            generate(model, tokenizer, **options)
    tokenizer.chat_template = None
    with pytest.raises(MedgrpoError, match="chat template"):
        generate(model, tokenizer)
