"""Files that would run code, or lead out of their folder, are refused in one line."""

import shutil
from pathlib import Path

import pytest
import torch
from trl import ModelConfig

from medgrpo import MedGRPOConfig
from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.load import load_model, resolve_model
from medgrpo.exams.igakuqa import read_igakuqa
from medgrpo.exams.igakuqa119 import read_igakuqa119
from medgrpo.experiment.model import find_model
from medgrpo.tiny import TINY_MODEL


class Bomb:
    """What a pickle can be: code that runs when it is loaded."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return Path.touch, (self.target,)


@pytest.fixture
def pickled(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    shutil.copytree(TINY_MODEL, folder)
    (folder / "model.safetensors").unlink()
    torch.save(Bomb(tmp_path / "exploded"), folder / "pytorch_model.bin")
    return folder


def test_a_folder_of_pickles_is_refused_wherever_a_model_is_named(pickled: Path, tmp_path: Path) -> None:
    config = MedGRPOConfig(output_dir=str(tmp_path / "run"))
    for load in (
        lambda: resolve_model(str(pickled)),
        lambda: load_model(str(pickled)),
        lambda: find_model(ModelConfig(model_name_or_path=str(pickled)), config),
    ):
        with pytest.raises(MedgrpoError, match=r"pickles \(pytorch_model.bin\).*safetensors") as refused:
            load()
        assert "\n" not in str(refused.value)
    assert not (tmp_path / "exploded").exists()


def test_pickles_beside_safetensors_are_not_read(pickled: Path, tmp_path: Path) -> None:
    shutil.copy(Path(TINY_MODEL) / "model.safetensors", pickled)
    load_model(str(pickled))
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("asked", [False, True])
def test_remote_code_and_safetensors_are_what_the_trainer_is_told(asked: bool, tmp_path: Path) -> None:
    config = MedGRPOConfig(output_dir=str(tmp_path), model_init_kwargs={"trust_remote_code": True} if asked else None)
    find_model(ModelConfig(model_name_or_path="tiny"), config)
    assert config.model_init_kwargs["use_safetensors"] is True
    assert config.model_init_kwargs.get("trust_remote_code", False) is asked


def test_a_folder_linked_as_the_hubs_cache_links_it_is_a_model(tmp_path: Path) -> None:
    (tmp_path / "snapshot").mkdir()
    for path in Path(TINY_MODEL).iterdir():
        (tmp_path / "snapshot" / path.name).symlink_to(path)
    load_model(str(tmp_path / "snapshot"))


def test_a_link_out_of_a_checkout_is_refused(data_dir: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.jsonl"
    secret.write_text("root:x:0:0\n")
    shutil.copytree(data_dir / "igakuqa" / "data", tmp_path / "igakuqa")
    stolen = tmp_path / "igakuqa" / "2022" / "116-C.jsonl"
    stolen.unlink()
    stolen.symlink_to(secret)
    with pytest.raises(MedgrpoError, match="116-C.jsonl: is a link that leads out of") as refused:
        read_igakuqa(tmp_path / "igakuqa")
    assert "root:x" not in str(refused.value)
    shutil.copytree(data_dir / "igakuqa119", tmp_path / "igakuqa119")
    (key,) = (tmp_path / "igakuqa119").rglob("correct_answers.csv")
    key.unlink()
    key.symlink_to(secret)
    with pytest.raises(MedgrpoError, match="correct_answers.csv: is a link that leads out of"):
        read_igakuqa119(tmp_path / "igakuqa119")


def test_a_checkout_that_is_a_link_itself_and_links_within_are_read(data_dir: Path, tmp_path: Path) -> None:
    shutil.copytree(data_dir / "igakuqa" / "data", tmp_path / "real")
    moved = tmp_path / "real" / "annex.jsonl"
    (tmp_path / "real" / "2022" / "116-C.jsonl").rename(moved)
    (tmp_path / "real" / "2022" / "116-C.jsonl").symlink_to(moved)
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    assert len(read_igakuqa(tmp_path / "linked", {2022})) == 400
