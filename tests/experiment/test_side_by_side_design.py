"""The file of a side-by-side experiment: what it becomes, and how its mistakes are told."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from medgrpo import CHORDTrainer, GSPOTrainer, MOGRPOTrainer
from medgrpo.errors import MedgrpoError
from medgrpo.experiment.methods import combine
from medgrpo.experiment.side_by_side.design import read_design
from medgrpo.experiment.side_by_side.launch import launch_command, run_all, slurm_jobs
from medgrpo.experiment.side_by_side.train import FINISHED, STARTED, load_exams, parse_settings, refuse_other_settings

ROOT = Path(__file__).resolve().parents[2]


def write(folder: Path, **changes: Any) -> Path:
    design = {
        "output_dir": str(folder / "out"),
        "exams": {"mini": {"file": "mini_exam", "years": "2023-2026"}},
        "settings": {
            "model_name_or_path": "tiny",
            "train_file": "mini_exam",
            "train_years": "2019-2022",
            "num_generations": 4,
            "per_device_train_batch_size": 8,
            "steps_per_generation": 4,
            "max_steps": 2,
            "report_to": "none",
        },
        "methods": {"GRPO": {"method": "grpo"}, "GSPO": {"method": "gspo", "epsilon": 0.05}},
    }
    path = folder / "design.yaml"
    path.write_text(yaml.safe_dump(design | changes, sort_keys=False), encoding="utf-8")
    return path


def test_runs_are_the_base_and_each_method_with_each_seed(tmp_path: Path) -> None:
    design = read_design(write(tmp_path, seeds=[0, 5]))
    assert [run.name for run in design.runs] == ["base", "GRPO/seed0", "GRPO/seed5", "GSPO/seed0", "GSPO/seed5"]
    _, config, _ = parse_settings(design.find("GSPO/seed5"))
    assert (config.seed, config.epsilon, config.importance_sampling_level) == (5, 0.05, "sequence")
    assert config.output_dir == str(tmp_path / "out" / "GSPO" / "seed5")
    assert config.max_steps == 2
    _, base, _ = parse_settings(design.find("base"))
    assert base.beta == 0


def test_the_design_that_comes_with_the_recipe_is_accepted_by_every_method(tmp_path: Path) -> None:
    text = (ROOT / "recipes" / "configs" / "tiny_side_by_side_cpu.yaml").read_text(encoding="utf-8")
    path = tmp_path / "design.yaml"
    path.write_text(text.replace("runs/side_by_side_tiny", str(tmp_path)), encoding="utf-8")
    design = read_design(path)
    assert design.labels == ["GRPO", "GSPO", "CHORD", "MO-GRPO", "CHORD+GSPO+MO-GRPO"]
    for run in design.runs:
        exam, _, _ = parse_settings(run)
        assert exam.reward_funcs == ["ophtho", "japanese"]


def test_methods_combine() -> None:
    config_class, trainer_class = combine(["mo_grpo", "chord", "gspo"])
    for part in (CHORDTrainer, GSPOTrainer, MOGRPOTrainer):
        assert issubclass(trainer_class, part)
    config = config_class(output_dir="x", chord_mu_peak=0.3, report_to="none")
    assert (config.importance_sampling_level, config.epsilon, config.advantage) == ("sequence", 3e-4, "mo_grpo")
    assert combine(["grpo", "gspo"]) == combine(["gspo"])


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"methods": {"GSPO": {"method": "gspo", "epsilonn": 1}}}, "methods.GSPO.epsilonn: unknown: did you mean 'eps"),
        ({"methods": {"X": {"method": "ppo"}}}, "methods.X: method ppo: choose from"),
        ({"methods": {"X": {"epsilon": 0.1}}}, "methods.X: method missing"),
        ({"methods": {"X": {"method": "grpo", "train_file": "other.jsonl"}}}, "is the same for all"),
        (
            {"methods": {"X": {"method": "grpo", "run_name": "mine"}}},
            "methods.X.run_name: is made of output_dir, label",
        ),
        ({"methods": {"a/b": {"method": "grpo"}}}, "a label names a folder"),
        ({"methods": {"X": {"method": 5}}}, "methods.X: method 5: choose from"),
        ({"methods": {"X": {"method": [["grpo"]]}}}, "methods.X: method ['grpo']: choose from"),
        ({"methods": {"X": {"method": "grpo", "model_revision": "abc"}}}, "is the same for all"),
        ({"methods": {}}, "methods missing"),
        ({"seeds": []}, "seeds: has to be a list"),
        ({"seeds": [1, 1]}, "has one twice"),
        ({"seeds": ["0"]}, "seeds: has to be a list"),
        ({"lang": "fr"}, "lang: has to be ja or en"),
        ({"exam": {}}, "exam: unknown: did you mean 'exams'"),
        ({"exams": {"a": {"years": 2022}}}, "exams.a.file is missing"),
        ({"settings": {"train_file": "mini_exam"}}, "settings.model_name_or_path is missing"),
        ({"settings": {"model_name_or_path": "tiny", "train_file": "x", "seed": 1}}, "say it with `seeds`"),
    ],
)
def test_mistakes_name_the_field(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    with pytest.raises(MedgrpoError, match=r"design\.yaml: ") as caught:
        read_design(write(tmp_path, **changes))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_exam_trains_on_the_same_questions(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        exams={"late": {"file": "mini_exam", "years": "2025-2026"}, "early": {"file": "mini_exam", "years": 2023}},
    )
    design = read_design(path)
    arguments, _, _ = parse_settings(design.find("base"))
    exams = load_exams(design, arguments)
    assert exams["late"].train == exams["early"].train
    assert {question.year for question in exams["early"].held_out} == {2023}
    leaking = read_design(write(tmp_path, exams={"leak": {"file": "mini_exam", "years": 2022}}))
    with pytest.raises(MedgrpoError):
        load_exams(leaking, arguments)


def test_jobs_are_printed_for_what_is_not_finished(tmp_path: Path) -> None:
    design = read_design(write(tmp_path, placement="accelerate_configs/cpu.yaml"))
    script = ROOT / "recipes" / "side_by_side.py"
    run = design.find("GRPO/seed0")
    run.folder.mkdir(parents=True)
    (run.folder / FINISHED).write_text(f'{{"fingerprint": "{run.fingerprint}"}}')
    printed = slurm_jobs(design, script, "launch/train_8x8.sbatch")
    assert "GRPO/seed0" not in printed
    assert "--run GSPO/seed0" in printed
    assert "--run base" in printed
    assert f"CONFIG={design.path} sbatch --parsable --job-name=base launch/train_8x8.sbatch" in printed
    assert "--dependency=" in printed.splitlines()[-1]
    assert launch_command(design, run, script)[-2:] == ["--run", "GRPO/seed0"]


def test_a_finished_run_with_other_settings_is_not_mixed_in(tmp_path: Path) -> None:
    run = read_design(write(tmp_path)).find("GRPO/seed0")
    run.folder.mkdir(parents=True)
    (run.folder / FINISHED).write_text(f'{{"fingerprint": "{run.fingerprint}"}}')
    for changes in (
        {"methods": {"GRPO": {"method": "grpo", "beta": 0.3}}},
        {"exams": {"mini": {"file": "mini_exam", "years": "2024-2026"}}},
    ):
        with pytest.raises(MedgrpoError, match="was finished with other settings"):
            slurm_jobs(read_design(write(tmp_path, **changes)), "side_by_side.py", "launch/train_8x8.sbatch")


def test_a_checkpoint_of_other_settings_is_not_gone_on_from(tmp_path: Path) -> None:
    run = read_design(write(tmp_path)).find("GRPO/seed0")
    run.folder.mkdir(parents=True)
    (run.folder / STARTED).write_text(f'{{"fingerprint": "{run.fingerprint}"}}')
    changed = read_design(write(tmp_path, methods={"GRPO": {"method": "grpo", "beta": 0.3}})).find("GRPO/seed0")
    refuse_other_settings(changed)
    (run.folder / "checkpoint-1").mkdir()
    refuse_other_settings(run)
    with pytest.raises(MedgrpoError, match="was started with other settings"):
        refuse_other_settings(changed)


def test_a_placement_that_is_no_file_is_told_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(MedgrpoError, match=r"placement: nowhere\.yaml: no such file"):
        run_all(read_design(write(tmp_path, placement="nowhere.yaml")), "side_by_side.py")
    assert not (tmp_path / "out").exists()


def test_no_run_is_pushed_before_all_are_compared(tmp_path: Path) -> None:
    path = write(tmp_path, methods={"A B": {"method": "grpo", "push_to_hub": True}})
    with pytest.raises(MedgrpoError, match=r"medgrpo push .* --run 'A B' --scored EXAM"):
        parse_settings(read_design(path).find("A B/seed0"))


def test_where_all_is_finished_the_report_waits_for_no_job(tmp_path: Path) -> None:
    design = read_design(write(tmp_path))
    for run in design.runs:
        run.folder.mkdir(parents=True)
        (run.folder / FINISHED).write_text(f'{{"fingerprint": "{run.fingerprint}"}}')
    assert "--dependency" not in slurm_jobs(design, "side_by_side.py", "launch/train_8x8.sbatch")
