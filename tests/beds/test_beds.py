"""Beds leave nothing behind, and take no other process for one of theirs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from beds.hosts import host_bed
from beds.processes import running, words_of
from beds.slurm import slurm_bed
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process
needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="namespaces and Slurm's daemons need root"
)

# A process that leaves its parent's session and tree.
_STRAY = """import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(1000)
    os._exit(0)
time.sleep(1000)
"""


def test_a_process_that_has_ended_is_not_the_one_that_has_its_number_now() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    with subprocess.Popen(["sleep", "1000"]) as other:
        try:
            found = running(other)
            assert found is not None
            assert found.pid == other.pid
            ended.pid = other.pid
            assert running(ended) is None
        finally:
            other.kill()
    assert running(other) is None


@needs_root
def test_nothing_of_hosts_is_left(tmp_path: Path) -> None:
    with host_bed(tmp_path / "hosts", 2) as bed:
        processes = [bed.hosts[0].process.pid, bed.hosts[1].process.pid]
        network = bed.hosts[0].network
        assert network is not None
        own = _links(network.bridge)
        assert len(own) > 2
    assert not own & _links(network.bridge)
    assert not any(Path(f"/proc/{pid}").exists() for pid in processes)


def _links(bridge: str) -> set[str]:
    """The numbers of its interfaces, which are not given again; other tests have beds at the same
    time."""
    listed = subprocess.run(
        ["ip", "-o", "link"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return {line.partition(":")[0] for line in listed if re.search(rf"\b{bridge}\b", line)}


@needs_root
@pytest.mark.parametrize("tracking", [pytest.param("linuxproc", marks=pytest.mark.long), "cgroup"])
def test_nothing_of_a_slurm_is_left(tmp_path: Path, tracking: str) -> None:
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
