"""Every method trains an adapter: it alone moves, it alone is saved, and evaluation loads what was trained."""

from pathlib import Path

import pytest
import torch
from datasets import Dataset
from example_rewards import hash_reward, share_of_vowels
from peft import LoraConfig
from safetensors.torch import load_file

from medgrpo.evaluation.load import load_model
from medgrpo.experiment.methods import METHODS, combine

TAUGHT = Dataset.from_list([{"prompt": "a", "completion": "b"}, {"prompt": "who", "completion": "me"}])


@pytest.mark.parametrize("parts", [*([name] for name in METHODS), ["chord", "gspo", "mo_grpo"]], ids="+".join)
def test_the_adapter_moves_and_nothing_else(parts, make_model, tokenizer, dataset, tmp_path: Path) -> None:
    config_class, trainer_class = combine(parts)
    base = tmp_path / "base"
    make_model().save_pretrained(base)
    tokenizer.save_pretrained(base)
    trainer = trainer_class(
        model=str(base),
        processing_class=tokenizer,
        reward_funcs=[share_of_vowels, hash_reward],
        train_dataset=dataset,
        peft_config=LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"),
        args=config_class(
            output_dir=str(tmp_path / "run"),
            per_device_train_batch_size=8,
            num_generations=4,
            steps_per_generation=2,
            max_completion_length=8,
            max_steps=4,
            learning_rate=1e-2,
            beta=0.1,
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="no",
            log_completions=False,
            disable_tqdm=True,
        ),
        **({"chord_sft_dataset": TAUGHT} if "chord" in parts else {}),
    )
    before = {name: value.detach().clone() for name, value in trainer.model.named_parameters()}
    trainer.train()
    moved = {name for name, value in trainer.model.named_parameters() if not torch.equal(value, before[name])}
    assert moved == {name for name in before if "lora_" in name and ".ref" not in name}
    trainer.save_model()
    assert all("lora_" in name for name in load_file(tmp_path / "run" / "adapter_model.safetensors"))

    loaded, _, _ = load_model(str(tmp_path / "run"))
    ids = tokenizer("question a", return_tensors="pt").input_ids
    trainer.model.eval()
    with torch.no_grad():
        assert torch.allclose(loaded(ids).logits, trainer.model(ids).logits, atol=1e-5)
