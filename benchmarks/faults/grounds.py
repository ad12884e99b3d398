"""Where cases run: this machine, hosts with an sshd each, nodes of a Slurm."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil

from beds.command import CommandBed
from beds.hosts import HostBed, host_bed
from beds.slurm import SlurmBed, slurm_bed
from faults.cases import HOSTS, LOCAL, SLURM


class Ground:
    """This machine. `begin` makes the folder for one run."""

    place = LOCAL

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, name: str) -> CommandBed:
        folder = self.folder / name / "bed"
        folder.mkdir(parents=True)
        return CommandBed(folder)

    def options(self) -> Sequence[str]:
        """Of `up`, besides the cluster file's keys."""
        return ()

    def keys(self) -> dict[str, object]:
        """Of the cluster file."""
        return {}

    def run(self, host: str, *command: str) -> None:
        subprocess.run(command, check=False, capture_output=True)

    def on_host(self, bed: CommandBed, host: str) -> list[psutil.Process]:
        """What psclust runs there."""
        return bed.processes()

    def left(self, bed: CommandBed) -> list[str]:
        """What lives there, which after a run is too much."""
        return [describe(process) for process in bed.processes()]

    def clear(self, bed: CommandBed) -> None:
        bed.end()


class Hosts(Ground):
    """Three hosts with two slots each, so that the tasks of one find room on the others."""

    place = HOSTS

    def __init__(self, folder: Path, hosts: HostBed) -> None:
        super().__init__(folder)
        self._hosts = hosts
        self._by_name = {host.name: host for host in hosts.hosts}

    def begin(self, name: str) -> CommandBed:
        folder = self._hosts.shared / name / "bed"
        folder.mkdir(parents=True)
        cache = {"HOME": str(self._hosts.home), "XDG_CACHE_HOME": str(self.folder / "cache")}
        return CommandBed(folder, cache)

    def keys(self) -> dict[str, object]:
        return {"hosts": [f"{name}:3" for name in self._by_name]}

    def run(self, host: str, *command: str) -> None:
        with suppress(subprocess.CalledProcessError):
            self._by_name[host].run(*command)

    def on_host(self, bed: CommandBed, host: str) -> list[psutil.Process]:
        return self._by_name[host].processes()

    def left(self, bed: CommandBed) -> list[str]:
        there = [
            f"{host.name}: {program}" for host in self._hosts.hosts for program in host.programs()
        ]
        return [*super().left(bed), *there]

    def clear(self, bed: CommandBed) -> None:
        super().clear(bed)
        for host in self._hosts.hosts:
            host.end_programs()
            self.run(host.name, "nft", "flush", "ruleset")


class Nodes(Ground):
    """An allocation of three nodes of two CPUs for each run."""

    place = SLURM

    def __init__(self, folder: Path, slurm: SlurmBed) -> None:
        super().__init__(folder)
        self._slurm = slurm

    def begin(self, name: str) -> CommandBed:
        folder = self.folder / name / "bed"
        folder.mkdir(parents=True)
        options = ("--quiet", "--nodes=3", "--ntasks-per-node=3", "--no-kill")
        return CommandBed(
            folder,
            {**self._slurm.environ, "XDG_CACHE_HOME": str(self.folder / "cache")},
            ("salloc", *options, sys.executable, "-m", "psclust"),
        )

    def on_host(self, bed: CommandBed, host: str) -> list[psutil.Process]:
        found = []
        for process in self._slurm.processes():
            with suppress(psutil.Error):
                if process.environ().get("SLURMD_NODENAME") == host:
                    found.append(process)
        return found

    def left(self, bed: CommandBed) -> list[str]:
        return [*super().left(bed), *self._slurm.jobs()]

    def clear(self, bed: CommandBed) -> None:
        super().clear(bed)
        self._slurm.run("scancel", "--user", "root", check=False)
        for node in self._slurm.nodes:
            assert node.network is not None
            flush = [*node.network.command(node.name), "nft", "flush", "ruleset"]
            subprocess.run(flush, check=False, capture_output=True)


def describe(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return f"{process.pid} {' '.join(process.cmdline())[:150]}"
    return str(process.pid)


@contextmanager
def ground(place: str) -> Iterator[Ground]:
    """For many runs: sshd, or Slurm, starts once."""
    folder = Path(tempfile.gettempdir()) / f"chaos-{uuid.uuid4().hex[:8]}"
    folder.mkdir()
    with ExitStack() as stack:
        if place == HOSTS:
            yield Hosts(folder, stack.enter_context(host_bed(folder / "hosts", 3)))
        elif place == SLURM:
            slurm = stack.enter_context(slurm_bed(folder / "slurm", 3, isolated=True))
            yield Nodes(folder, slurm)
        else:
            yield Ground(folder)
    if not list(folder.glob("**/case-*")):
        shutil.rmtree(folder)  # nothing is kept
