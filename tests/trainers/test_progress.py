from types import SimpleNamespace

from transformers import TrainerControl, TrainerState, TrainingArguments

from medgrpo.trainers.progress import RewardProgress


def test_bar_shows_the_last_value_of_each_metric(tmp_path) -> None:
    progress, shown = RewardProgress(), []
    progress.training_bar = SimpleNamespace(set_postfix=lambda values: shown.append(dict(values)))
    given = (TrainingArguments(output_dir=str(tmp_path), use_cpu=True), TrainerState(), TrainerControl())
    progress.on_log(*given, logs={"reward": 0.51234, "kl": 0.0, "loss": 9.0})
    progress.on_log(*given, logs={"kl": 0.25, "reward": None})
    assert shown == [{"reward": "0.512", "kl": "0"}, {"reward": "0.512", "kl": "0.25"}]
