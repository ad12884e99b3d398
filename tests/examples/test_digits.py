"""The digits example: real images, four ways to train on them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from psclust.testing.command import CommandBed

PROGRAM = "psclust.examples.digits:program"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder that the tests of this module share, so that the images are written once."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.process
@pytest.mark.tensorflow
@pytest.mark.parametrize("update", ["--sync", "--async"])
@pytest.mark.parametrize("replication", ["in-graph", "between-graph"])
def test_the_digits_are_learned_in_each_of_the_four_ways(bed: CommandBed, cache: Path, replication: str, update: str) -> None:
    ways = ["--ps", "2", "--workers", "2", "--replication", replication, update]
    code, output = bed.run("up", *ways, PROGRAM, env={"XDG_CACHE_HOME": str(cache)}, deadline=90)
    assert code == 0, output
    evaluation = json.loads((bed.run_folder().path / "model" / "evaluation.json").read_text())
    assert evaluation["examples"] == 360
    assert evaluation["metrics"]["accuracy"] >= 0.96
    # Every image of every epoch has been used: 12 epochs of 1,437 images, in batches of 32 of each half of them.
    assert evaluation["step"] == (270 if update == "--sync" else 540)


@pytest.mark.process
@pytest.mark.tensorflow
def test_four_processes_may_write_the_images_at_once(tmp_path: Path) -> None:
    code = f"from pathlib import Path; from psclust.examples.digits import write_digits; write_digits(Path({str(tmp_path / 'digits')!r}))"
    writers = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) for _ in range(4)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0, 0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["digits", "digits.lock"]
    files = sorted(path.name for path in (tmp_path / "digits").iterdir())
    assert files == ["eval.tfrecord", "train-0.tfrecord", "train-1.tfrecord", "train-2.tfrecord", "train-3.tfrecord"]


@pytest.mark.process
@pytest.mark.tensorflow
def test_without_scikit_learn_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "sklearn").mkdir()
    (tmp_path / "sklearn" / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'sklearn'\", name='sklearn')")
    done = subprocess.run(
        [sys.executable, "-m", "psclust.train", PROGRAM],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "pip install psclust[examples]" in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in (tmp_path / "cache" / "psclust").iterdir()) == ["digits-v1.lock"]
