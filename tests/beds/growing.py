"""A training with `psclust up` whose workers come, go and die, and what its last checkpoint counts.

It is the program of tests/train/handed_out.py, slow until it is to `hurry`, so that there is time
for what a test does to it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from beds.command import CommandBed
from psclust.testing.wait import wait_until

_PROGRAM = Path(__file__).parents[1] / "train" / "handed_out.py"
BATCH = 5
"""Examples of a batch of it."""

WAYS = ("between-graph --async", "between-graph --sync", "in-graph --async", "in-graph --sync")


def in_ways(*quick: str, among: Sequence[str] = WAYS) -> pytest.MarkDecorator:
    """Repeats a test for each `way`; those that are not `quick` are marked `long`."""
    return pytest.mark.parametrize(
        "way",
        [pytest.param(way, marks=() if way in quick else pytest.mark.long) for way in among],
    )


@dataclass(frozen=True)
class Growing:
    """A run that has begun to train. examples: each is used `epochs` times. shared: the folder of
    the model, and of the file `hurry`."""

    bed: CommandBed
    examples: int
    epochs: int
    shared: Path

    def step(self, task: str) -> int:
        """That the present attempt of a program has reached; 0 if it has made none."""
        path = self.bed.run_folder().path / "progress" / f"{task.replace(':', '-')}.json"
        with suppress(FileNotFoundError):
            return int(json.loads(path.read_text(encoding="utf-8")).get("step", 0))
        return 0

    def reach(self, step: int, task: str | None = None) -> None:
        """Waits for a step of `task`, or of any program."""
        wait_until(
            lambda: max(map(self.step, [task] if task else self._tasks())) >= step,
            what=f"step {step} of {task or 'any task'}",
        )

    def _tasks(self) -> list[str]:
        return [task.task for task in self.bed.status().tasks]

    def attempts(self) -> dict[str, int]:
        """Of each task, as `psclust ps --json` gives them."""
        found = json.loads(self.bed.done_here("ps", "--json"))
        return {task["task"]: task["attempt"] for task in found["tasks"]}

    def scale(self, workers: int) -> str:
        return self.bed.done("scale", f"worker={workers}")

    def hurry(self) -> None:
        """To the end of the training."""
        (self.shared / "hurry").touch()

    def used(self) -> list[int]:
        """How often each example was used, once the run has ended well."""
        ended = self.bed.wait_for_end()
        assert ended.ok, ended.text
        import tensorflow as tf

        reader = tf.train.load_checkpoint(str(self.shared / "model"))
        return [round(count) for count in reader.get_tensor("counts").tolist()]


def growing(
    bed: CommandBed,
    way: str,
    *,
    workers: int = 2,
    ps: int = 2,
    examples: int = 3000,
    epochs: int = 2,
    pause: float = 0.1,
    up: Sequence[str] = ("up", "-d"),
    shared: tuple[str, Path] | None = None,
    **keys: object,
) -> Growing:
    """Starts it; without `up` it is only written. way: of `WAYS`. keys: more of the cluster file.
    shared: a folder for the model, as tasks see it and as it is seen here; by default that of the
    bed."""
    seen, here = shared or (str(bed.folder), bed.folder)
    shutil.copy(_PROGRAM, bed.folder)
    replication, update = way.split(" --")
    sets = {"examples": examples, "pause": pause, "hurry": f"{seen}/hurry"}
    args = [word for name, value in sets.items() for word in ("--set", f"{name}={value}")]
    args += ["--config", f"epochs={epochs}", "--model-dir", f"{seen}/model"]
    args += ["--log-seconds", "0.5"]
    jobs = {"ps": ps, "worker": workers}
    file: dict[str, object] = {"replication": replication, "update": update, "jobs": jobs}
    file |= {"program": "handed_out:program", "args": args, "input": "handed_out", **keys}
    bed.write("psclust.yaml", json.dumps(file))
    if up:
        bed.done(*up)
    return Growing(bed, examples, epochs, here)
