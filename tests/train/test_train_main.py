"""`python -m psclust.train` as a process: exit codes, messages, files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

Alone = Callable[..., tuple[int, str]]


def test_a_program_runs_alone_and_is_evaluated(alone: Alone, tmp_path: Path) -> None:
    progress = tmp_path / "progress.json"
    words = ["toys:line", "--model-dir", str(tmp_path / "m"), "--set", "points=200"]
    code, output = alone(*words, PSCLUST_PROGRESS=str(progress))
    assert code == 0, output
    lines = [line for line in output.splitlines() if "0000 00" not in line]
    assert lines[-3] == "trained to step 17"
    assert lines[-2].startswith("evaluation: error ")
    assert lines[-2].endswith("(200 examples) at step 17")
    assert lines[-1] == f"the model is in {tmp_path / 'm'}"
    found = json.loads((tmp_path / "m" / "evaluation.json").read_text())
    assert (found["step"], found["examples"], sorted(found["metrics"])) == (
        17,
        200,
        ["error", "loss"],
    )
    told = json.loads(progress.read_text())
    assert (told["phase"], told["step"], told["metrics"]) == ("done", 17, found["metrics"])


@pytest.mark.parametrize(
    ("level", "quiet"), [(None, True), pytest.param("0", False, marks=pytest.mark.long)]
)
def test_tensorflows_notices_are_left_out_of_a_plain_start(level: str | None, quiet: bool) -> None:
    env = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    env |= {"PYTHONPATH": str(Path(__file__).parent)} | (
        {"TF_CPP_MIN_LOG_LEVEL": level} if level else {}
    )
    argv = [sys.executable, "-m", "psclust.train", "toys:line", "--max-steps", "2", "--do", "train"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "trained to step 2\n"
    assert (
        "cpu_feature_guard" not in done.stderr and "absl::InitializeLog()" not in done.stderr
    ) is quiet, done.stderr


def test_one_process_may_have_several_devices(alone: Alone, tmp_path: Path) -> None:
    config = ["--config", "device_count=3", "--config", "summary_steps=50"]
    code, output = alone("toys:tally", *config, "--model-dir", str(tmp_path / "m"))
    assert code == 0, output
    assert sorted(path.name for path in (tmp_path / "m").glob("tower_*")) == ["tower_1", "tower_2"]


def test_a_finished_training_is_not_done_again(alone: Alone, tmp_path: Path) -> None:
    assert alone("toys:line", "--model-dir", str(tmp_path / "m"))[0] == 0
    code, output = alone("toys:line", "--model-dir", str(tmp_path / "m"))
    assert code == 0
    assert "model.ckpt-9" in output
    assert "trained to step 9" in output


@pytest.mark.parametrize(
    ("arguments", "expected", "message"),
    [
        (["toys:tally", "--set", "batch=3"], 2, "did you mean 'batches'?"),
        (["toys:no_loss"], 2, "model_fn returned no loss"),
        (["toys:line", "--model-dir", "/dev/null/m"], 1, "cannot be written"),
    ],
)
def test_a_mistake_is_one_sentence_and_an_exit_code(
    alone: Alone, arguments: list[str], expected: int, message: str
) -> None:
    code, output = alone(*arguments)
    assert code == expected, output
    assert message in output
    assert "Traceback" not in output


@pytest.mark.parametrize(("task", "says"), [("chief:0", 1), ("worker:0", 0), ("evaluator:0", 1)])
def test_only_the_chief_warns_of_a_mistake_in_a_function_that_all_call(
    alone: Alone, task: str, says: int
) -> None:
    cluster = {"ps": ["localhost:1"], "chief": ["localhost:2"], "worker": ["localhost:3"]}
    code, output = alone(
        "--describe", "toys:compares", PSCLUST_TASK=task, PSCLUST_CLUSTER=json.dumps(cluster)
    )
    assert code == 0, output
    assert output.count("compares tensors as objects") == says


def test_the_traceback_of_a_users_own_mistake_begins_in_the_users_code() -> None:
    command = [sys.executable, "-m", "psclust.train", "toys:broken"]
    done = subprocess.run(
        command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 1
    shown = done.stderr.partition("Traceback (most recent call last):\n")[2]
    lines = [line for line in shown.splitlines() if line.startswith("  File ")]
    assert [line.rpartition(" in ")[2] for line in lines] == ["_broken_model"]
    assert "ZeroDivisionError" in shown
