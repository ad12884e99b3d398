"""How a run in a Slurm allocation ends before its time, and goes on in the next attempt."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from on_slurm import PSCLUST, allocated, needs_root, wait_for_nothing_left

from beds.command import CommandBed, typed
from beds.slurm import SlurmBed
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, needs_root]

# Counts, with a file as its checkpoint; worker:0 writes it when it is asked to save.
_COUNTS = """import os, signal, sys, time
path, step = "step", 0
def save(number, frame):
    if os.environ["PSCLUST_TASK"] == "worker:0":
        with open(path, "w") as file:
            file.write(str(step))
    print("saved at step", step, flush=True)
    sys.exit(0)
signal.signal(signal.SIGUSR1, save)
if os.path.exists(path):
    step = int(open(path).read())
print("from step", step, flush=True)
while step < 1000:
    step += 1
    time.sleep(float(os.environ.get("PACE", "0.1")))
"""


_KEYS = (
    "hosts: slurm\njobs: {ps: {run: server}, worker: 1}\nprogram: train.py\n"
    "role_by: none\npreload: false\n"
)


class Batch:
    """`psclust up` in a batch script. said: what all attempts have printed."""

    def __init__(self, slurm: SlurmBed, folder: Path, *options: str, keys: str = _KEYS) -> None:
        self.slurm = slurm
        self.bed = allocated(slurm, folder)
        self.bed.write("train.py", _COUNTS)
        self.bed.write("psclust.yaml", keys)
        self.bed.write("job.sh", f"#!/bin/sh\nexec {' '.join(PSCLUST)} up\n")
        sbatch = typed("sbatch --parsable --nodes=2 --open-mode=append --output=said")
        self.bed.command = (*sbatch, *options)
        code, self.id = self.bed.run("job.sh")
        assert code == 0, self.id
        self.id = self.id.strip()

    @property
    def said(self) -> str:
        path = self.bed.folder / "said"
        return path.read_text() if path.exists() else ""

    def wait_for(self, text: str, times: int = 1) -> None:
        try:
            wait_until(lambda: self.said.count(text) >= times, 120, what=f"{text!r}")
        except TimeoutError:
            pytest.fail(
                f"{text!r} is not there {times} times:\n{self.said}\n{self.slurm.run('squeue')}"
            )

    def wait_for_end(self) -> None:
        wait_for_nothing_left(self.bed, self.slurm)


def test_a_batch_job_is_requeued_as_often_as_it_may_be_and_loses_nothing(
    slurm: SlurmBed, tmp_path: Path
) -> None:
    """USR1 comes as with `#SBATCH --signal=B:USR1@60`."""
    batch = Batch(slurm, tmp_path / "bed", keys=_KEYS + "slurm: {requeue: 2}\n")
    for attempt in (1, 2, 3):
        batch.wait_for("from step", attempt)
        batch.wait_for("is up", attempt)
        slurm.run("scancel", "--batch", "--signal=USR1", batch.id)
        batch.wait_for("saved and stopped (SIGUSR1)", attempt)
    batch.wait_for_end()
    saved, begun = (
        re.findall(r"saved at step (\d+)", batch.said),
        re.findall(r"from step (\d+)", batch.said),
    )
    assert begun == ["0", *saved[:2]], batch.said
    assert [int(step) for step in saved] == sorted(map(int, saved))
    assert "requeued: attempt 2 of 3 of Slurm job" in batch.said
    assert "requeued: attempt 3 of 3 of Slurm job" in batch.said
    assert "is not requeued: slurm.requeue allows 2, and this was the last" in batch.said


@pytest.mark.parametrize("nodes", [1, pytest.param(2, marks=pytest.mark.long)])
def test_scancel_lets_programs_save_and_the_job_is_not_requeued(
    slurm: SlurmBed, tmp_path: Path, nodes: int
) -> None:
    batch = Batch(
        slurm,
        tmp_path / "bed",
        f"--nodes={nodes}",
        "--ntasks-per-node=2",
        keys=_KEYS + "slurm: {requeue: 2}\n",
    )
    batch.wait_for("is up")
    batch.wait_for("from step")
    slurm.run("scancel", batch.id)
    batch.wait_for("saved at step")
    batch.wait_for_end()
    assert (
        "SIGTERM: the programs save their work and end" in batch.said
        or "SIGUSR1: the programs save their work and end" in batch.said
    )
    assert f"{nodes} node" in batch.said
    assert "requeued: attempt" not in batch.said
    assert "is not requeued" in batch.said


@pytest.mark.long
def test_a_job_that_is_pre_empted_saves_and_resumes_when_it_has_nodes_again(
    slurm: SlurmBed, tmp_path: Path
) -> None:
    batch = Batch(
        slurm,
        tmp_path / "bed",
        "--partition=low",
        "--exclusive",
        keys=_KEYS + "slurm: {requeue: 2}\nenv: {PACE: 0.02}\n",
    )
    batch.wait_for("is up")
    slurm.run(
        *typed(f"srun --quiet --partition=high --nodes=4 --exclusive {sys.executable} -c pass")
    )
    batch.wait_for("from step", 2)
    batch.wait_for("ended well")
    batch.wait_for_end()
    assert re.findall(r"from step (\d+)", batch.said) == [
        "0",
        *re.findall(r"saved at step (\d+)", batch.said),
    ], batch.said


@pytest.mark.long
def test_the_time_limit_is_no_loss(slurm: SlurmBed, tmp_path: Path) -> None:
    """A minute is the shortest; Slurm sends TERM then, up to half a minute late."""
    batch = Batch(slurm, tmp_path / "bed", "--time=1", keys=_KEYS + "slurm: {requeue: 1}\n")
    batch.wait_for("saved at step")
    batch.wait_for("from step", 2)
    slurm.run("scancel", batch.id)
    batch.wait_for_end()
    begun, saved = (
        re.findall(r"from step (\d+)", batch.said),
        re.findall(r"saved at step (\d+)", batch.said),
    )
    assert begun == ["0", saved[0]], batch.said


def test_in_salloc_it_ends_with_its_own_code(job: CommandBed, slurm: SlurmBed) -> None:
    job.write("train.py", _COUNTS)
    running = job.start(
        "up", "--no-preload", "--ps", "0", "--workers", "2", "--role-by", "none", "train.py"
    )
    running.until("from step", 2)
    number = slurm.jobs()[0].split()[0]
    slurm.run(
        "scancel", "--signal=TERM", f"{number}.0", check=False
    )  # it reports an error although it signals the step
    assert running.wait() == 75, running.output
    assert running.output.count("saved at step") == 2
    assert "is interactive, so it is not requeued" in running.output
