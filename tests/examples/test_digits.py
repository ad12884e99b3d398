"""The digits example: real images, four ways to train on them."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

from psclust.errors import UsageError
from psclust.examples.digits import data_dir, write_digits
from psclust.testing.wait import PATIENCE_S

PROGRAM = "psclust.examples.digits:program"


pytestmark = [pytest.mark.process, pytest.mark.tensorflow]


@pytest.mark.long
def test_one_process_alone_learns_the_digits(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    words = ["-m", "psclust.train", PROGRAM, "--model-dir", str(tmp_path / "model")]
    command = [sys.executable, *words]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    evaluation = json.loads((tmp_path / "model" / "evaluation.json").read_text())
    assert evaluation["metrics"]["accuracy"] >= 0.96
    # Twelve epochs of 1,437 images in batches of 32, and 360 images held out.
    assert (evaluation["step"], evaluation["examples"]) == (539, 360)


@pytest.mark.long
def test_four_processes_may_write_the_images_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["psclust.train.command_line"])
    writers = [context.Process(target=write_digits, args=(tmp_path / "digits",)) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(PATIENCE_S)
    assert [writer.exitcode for writer in writers] == [0, 0, 0, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["digits"]
    files = sorted(path.name for path in (tmp_path / "digits").iterdir())
    assert files == ["eval.tfrecord", *(f"train-{index}.tfrecord" for index in range(4))]


def test_without_scikit_learn_one_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(UsageError, match=r"pip install psclust\[examples\]"):
        write_digits(tmp_path / "digits")
    assert list(tmp_path.iterdir()) == []


def test_the_images_can_be_kept_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert data_dir({"data_dir": "/data/digits"}) == Path("/data/digits")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_dir({"data_dir": ""}) == tmp_path / "psclust" / "digits-v1"
