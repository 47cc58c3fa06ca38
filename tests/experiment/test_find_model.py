"""Which model an experiment starts from: a revision is honoured, and the commit really used is recorded."""

import shutil

import pytest
from huggingface_hub import constants
from trl import ModelConfig

from medgrpo import MedGRPOConfig
from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.load import identify_model, load_model
from medgrpo.experiment.model import find_model
from medgrpo.tiny import TINY_MODEL

BATCH = {"per_device_train_batch_size": 16, "gradient_accumulation_steps": 1}
MAIN, TAGGED = "1" * 40, "2" * 40


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A cache that holds `someone/tiny` at two commits, of which the tagged one has another chat template."""
    folder = tmp_path / "models--someone--tiny"
    for commit in (MAIN, TAGGED):
        shutil.copytree(TINY_MODEL, folder / "snapshots" / commit)
    (folder / "snapshots" / TAGGED / "chat_template.jinja").write_text("{{ 'tagged' }}")
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(MAIN)
    (folder / "refs" / "v1").write_text(TAGGED)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path


def find(tmp_path, **options):
    arguments = ModelConfig(**{"model_name_or_path": "someone/tiny", **options})
    config = MedGRPOConfig(output_dir=str(tmp_path / "run"), report_to="none", bf16=False, **BATCH)
    return arguments, config, find_model(arguments, config)


@pytest.mark.parametrize(("revision", "commit"), [("main", MAIN), ("v1", TAGGED), (TAGGED, TAGGED)])
def test_model_revision_is_honoured_and_becomes_the_commit(revision, commit, hub, tmp_path):
    arguments, config, (source, tokenizer, _) = find(tmp_path, model_revision=revision)
    assert source == "someone/tiny"
    assert arguments.model_revision == config.model_init_kwargs["revision"] == commit
    assert (tokenizer.chat_template == "{{ 'tagged' }}") == (commit == TAGGED)
    assert load_model("someone/tiny", revision)[2] == commit
    assert identify_model("someone/tiny", revision)[1].revision == commit


def test_a_revision_among_the_loading_options_is_resolved_too(hub, tmp_path):
    arguments = ModelConfig(model_name_or_path="someone/tiny")
    config = MedGRPOConfig(output_dir=str(tmp_path / "run"), report_to="none", bf16=False, **BATCH)
    config.model_init_kwargs = {"revision": "v1", "low_cpu_mem_usage": True}
    find_model(arguments, config)
    assert config.model_init_kwargs["revision"] == arguments.model_revision == TAGGED
    assert config.model_init_kwargs["low_cpu_mem_usage"] is True


def test_a_revision_that_is_not_there_and_one_of_a_folder(hub, tmp_path):
    with pytest.raises(MedgrpoError, match="someone/tiny at v9"):
        find(tmp_path, model_revision="v9")
    with pytest.raises(MedgrpoError, match="is a folder, which has no revision 'v1'"):
        find(tmp_path, model_name_or_path="tiny", model_revision="v1")
    arguments, config, _ = find(tmp_path, model_name_or_path="tiny")
    assert arguments.model_revision is None
    assert "revision" not in config.model_init_kwargs


def test_a_folder_that_was_trained_on_is_another_model(tmp_path):
    shutil.copytree(TINY_MODEL, tmp_path / "m")
    _, first = identify_model(str(tmp_path / "m"))
    assert identify_model(str(tmp_path / "m"))[1] == first
    (tmp_path / "m" / "samples.jsonl").write_text("")  # what is written beside a model does not count
    assert identify_model(str(tmp_path / "m"))[1] == first
    weights = (tmp_path / "m" / "model.safetensors").read_bytes()
    (tmp_path / "m" / "model.safetensors").write_bytes(weights)
    assert identify_model(str(tmp_path / "m"))[1] != first
