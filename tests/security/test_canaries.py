"""No token, key, home folder or user name in what a run leaves or prints: canaries planted, everything searched."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from medgrpo.tiny import TINY_MODEL

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "tests" / "sft_data")]

from canaries import SECRETS, USER, environment, find_leaks  # noqa: E402
from sft_server import ChatServer  # noqa: E402


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """/.../home/canary-user, with a model of its own in it."""
    home = tmp_path_factory.mktemp("machine") / "home" / USER
    shutil.copytree(TINY_MODEL, home / "models" / "base")
    return home


def run(home: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words], cwd=home, env=environment(home), capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def trained(home):
    """A run of two steps with a checkpoint, compared and audited: (its folder, everything that was printed)."""
    out = home / "runs" / "grpo"
    printed = run(
        home,
        *(str(ROOT / "recipes" / "grpo.py"), "--config", str(ROOT / "recipes" / "configs" / "tiny_grpo_cpu.yaml")),
        *("--model_name_or_path", str(home / "models" / "base"), "--output_dir", str(out), "--max_steps", "2"),
        *("--eval_years", "2026", "--save_strategy", "steps", "--save_steps", "2", "--completions_every", "1"),
        *("--per_device_train_batch_size", "8", "--steps_per_generation", "1", "--max_completion_length", "16"),
    )
    runs = [str(out / "before"), str(out / "after")]
    printed += run(
        home, "-m", "medgrpo.cli", "compare", *runs, "--out", str(out / "compared"), "--questions", "mini_exam"
    )
    printed += run(home, "-m", "medgrpo.cli", "audit", str(out), "--out", str(out / "audit"))
    return out, printed


def test_what_a_run_leaves_names_nobody(trained) -> None:
    out, _ = trained
    assert (out / "checkpoint-2").is_dir() and (out / "compared" / "comparison.html").is_file()
    assert find_leaks(out) == []


def test_what_a_run_logs_holds_no_secret(trained) -> None:
    """The terminal is the user's own: it may say where the files are, never a token or a key."""
    _, printed = trained
    assert [secret for secret in SECRETS.values() if secret in printed] == []


def test_nothing_in_a_run_is_a_pickle_with_its_settings(trained) -> None:
    out, _ = trained
    assert list(out.rglob("training_args.bin")) == []
    assert sorted(path.suffix for path in (out / "checkpoint-2").glob("model*")) == [".safetensors"]


def test_the_records_still_lead_to_the_model(trained, home) -> None:
    out, _ = trained
    recorded = json.loads((out / "run.json").read_text())["model"]
    assert recorded == "~/models/base"
    facts = json.loads((out / "compared" / "comparison.json").read_text())["facts"]
    assert [fact["model"] for fact in facts] == ["base (before GRPO)", "base (after GRPO)"]


def test_synthesis_keeps_its_key_for_itself(home) -> None:
    server = ChatServer()
    try:
        printed = run(
            home,
            *(str(ROOT / "recipes" / "sft_data.py"), "--train_file", "mini_exam", "--train_years", "2019-2022"),
            *("--eval_years", "2026", "--base_url", server.url, "--model", "m", "--api_key_env", "MY_SERVER_KEY"),
            *("--out", str(home / "sft" / "sft.jsonl"), "--limit", "8"),
        )
    finally:
        server.close()
    assert {headers["authorization"] for headers in server.headers} == {f"Bearer {SECRETS['MY_SERVER_KEY']}"}
    assert find_leaks(home / "sft") == []
    assert [secret for secret in SECRETS.values() if secret in printed] == []


def test_a_token_in_a_command_is_refused_and_not_repeated(home) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "recipes" / "grpo.py"), "--hub_token", SECRETS["HF_TOKEN"]],
        cwd=home, env=environment(home), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 2
    assert "error: hub_token: " in done.stderr and "HF_TOKEN" in done.stderr
    assert find_leaks(done.stdout + done.stderr) == []


def test_an_unknown_option_is_not_repeated_with_its_value() -> None:
    from medgrpo.experiment.arguments import ExamArguments, parse_dataclasses

    with pytest.raises(Exception, match="unknown option --api_key") as refused:
        parse_dataclasses((ExamArguments,), [f"--api_key={SECRETS['OPENAI_API_KEY']}"])
    assert SECRETS["OPENAI_API_KEY"] not in str(refused.value)
