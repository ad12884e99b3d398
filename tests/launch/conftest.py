"""Hosts to run the real command on, and folders to run it in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from full_disk import on_small_disk
from on_hosts import left
from on_slurm import allocated, wait_for_nothing_left

from beds.command import CommandBed
from beds.host_fixtures import hosts_of_file
from beds.hosts import HostBed
from beds.slurm import SlurmBed, slurm_bed
from psclust.testing.wait import wait_until

# Each with its own address; as root, also with its own name, processes and files (tests that need
# those are marked).
hosts = hosts_of_file(4)


@pytest.fixture
def far(hosts: HostBed, tmp_path: Path) -> Iterator[CommandBed]:
    """A folder that all hosts share, for a command that knows them; afterwards nothing of psclust
    may live on any of them."""
    folder = hosts.shared / tmp_path.name / "bed"
    folder.mkdir(parents=True)
    bed = CommandBed(folder, {"HOME": str(hosts.home), "XDG_CACHE_HOME": str(tmp_path / "cache")})
    yield bed
    try:
        wait_until(
            lambda: not left(hosts) and not bed.processes(),
            what="the end of everything on the hosts",
        )
    except TimeoutError:
        alive = [*left(hosts), *bed.end()]
        for host in hosts.hosts:
            host.end_programs()  # the next test is not to find them
        pytest.fail(f"still alive: {alive}")


@pytest.fixture
def apart(bed: CommandBed, hosts: HostBed) -> CommandBed:
    """A folder that no host sees."""
    bed.environ |= {"HOME": str(hosts.home)}
    return bed


@pytest.fixture
def small_disk(bed: CommandBed) -> Iterator[CommandBed]:
    """What the command keeps is on a file system of 256 KiB."""
    with on_small_disk(bed):
        yield bed


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmBed]:
    """A Slurm of four nodes, each with its own network and name, two GPUs and eight CPUs; all share
    this machine's files."""
    with slurm_bed(tmp_path_factory.mktemp("bed") / "slurm", 4, isolated=True, gpus=2) as slurm:
        yield slurm


@pytest.fixture
def job(slurm: SlurmBed, tmp_path: Path) -> Iterator[CommandBed]:
    """A command in an allocation of four nodes with two CPUs each; afterwards nothing of it may
    live on any node."""
    bed = allocated(slurm, tmp_path / "bed", "--nodes=4", "--ntasks-per-node=2", "--no-kill")
    yield bed
    wait_for_nothing_left(bed, slurm)
