"""The model in training is asked as its rollouts are."""

from pathlib import Path

from datasets import Dataset
from transformers import AutoTokenizer

from medgrpo import MedGRPOConfig, MedGRPOTrainer
from medgrpo.evaluation.backend import Sampling
from medgrpo.experiment.scoring import scoring_backend
from medgrpo.tiny import TINY_MODEL

TEMPLATE = (
    "{% for message in messages %}{{ message.content }}{% endfor %}"
    "{% if enable_thinking is defined and not enable_thinking %}考えない{% endif %}"
)


def test_settings_of_the_chat_template_hold_for_scoring_too(tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(TINY_MODEL)
    tokenizer.chat_template = TEMPLATE
    trainer = MedGRPOTrainer(
        model=str(TINY_MODEL),
        processing_class=tokenizer,
        reward_funcs=[lambda completions, **columns: [0.0] * len(completions)],
        args=MedGRPOConfig(
            output_dir=str(tmp_path),
            beta=0.0,
            num_generations=2,
            per_device_train_batch_size=2,
            chat_template_kwargs={"enable_thinking": False},
        ),
        train_dataset=Dataset.from_dict({"prompt": [[{"role": "user", "content": "問題"}]]}),
    )
    with scoring_backend(trainer, Sampling(max_new_tokens=2), batch_size=1, questions=1) as (backend, _):
        assert backend.settings["chat_template_kwargs"] == {"enable_thinking": False}
        asked = backend._encode([{"role": "user", "content": "問題"}])
    assert tokenizer.decode(asked) == "問題考えない"
