"""A Slurm for tests: it starts, runs jobs, tells its nodes apart, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from beds.processes import words_of
from beds.slurm import SlurmBed, slurm_bed
from psclust.testing.wait import wait_until

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(os.geteuid() != 0, reason="Slurm's daemons need root"),
]

# A process that leaves its parent's session and tree.
_STRAY = """import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(1000)
    os._exit(0)
time.sleep(1000)
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmBed]:
    with slurm_bed(tmp_path_factory.mktemp("bed") / "slurm", 2, isolated=True, gpus=2) as slurm:
        yield slurm


def test_each_node_has_its_own_name_and_address(slurm: SlurmBed) -> None:
    found = slurm.run("srun", "-N2", "-n2", "sh", "-c", "echo $SLURMD_NODENAME $(hostname)")
    assert sorted(found.splitlines()) == ["n1 n1", "n2 n2"]
    assert len({node.address for node in slurm.nodes}) == 2


def test_a_task_is_given_its_own_gpu(slurm: SlurmBed) -> None:
    found = slurm.run(
        "srun", "-N1", "-n2", "--gpus-per-task=1", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"
    )
    assert sorted(found.split()) == ["0", "1"]


@pytest.mark.long
def test_a_node_that_is_cut_off_is_down_until_it_is_healed(slurm: SlurmBed) -> None:
    slurm[1].cut()
    wait_until(lambda: "down*" in slurm.node_states(), what="the loss of the node")
    slurm[1].heal()
    wait_until(lambda: slurm.node_states() == ["idle", "idle"], what="the node's return")


@pytest.mark.parametrize("tracking", [pytest.param("linuxproc", marks=pytest.mark.long), "cgroup"])
def test_nothing_of_a_bed_is_left(tmp_path: Path, tracking: str) -> None:
    with slurm_bed(tmp_path / "slurm", 1, tracking=tracking) as slurm:  # type: ignore[arg-type]
        environ = {**os.environ, **slurm.environ}
        job = subprocess.Popen(
            ["srun", "-Q", sys.executable, "-c", _STRAY], env=environ, stderr=subprocess.DEVNULL
        )
        wait_until(
            lambda: len([each for each in slurm.processes() if _STRAY in words_of(each)]) == 2,
            what="the job's processes",
        )
        assert slurm.node_states() in (["mixed"], ["allocated"])
    job.wait()
    wait_until(lambda: slurm.processes() == [], what="the end of all processes")
    assert list(Path("/sys/fs/cgroup").glob("*/slurm_c1")) == []
