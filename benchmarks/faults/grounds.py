"""Where cases run: this machine, hosts with an sshd each, nodes of a Slurm."""

from __future__ import annotations

import os
import shutil
import signal
import socket
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
from faults import clock
from faults.cases import HOSTS, LOCAL, NAMES, SLURM, Case

HOME = "/run/home"  # of the user on each host
_DISK_BYTES = 64 << 20


class Ground:
    """This machine. `begin` makes the folder for one run. clocks: of all hosts and of this
    machine."""

    place = LOCAL

    def __init__(self, folder: Path, clocks: Path | None = None) -> None:
        self.folder = folder
        self._clocks = clocks or folder / "clock"
        self.clocks = clock.Clocks(self._clocks, {socket.gethostname(), *NAMES[self.place]})

    def begin(self, case: Case) -> CommandBed:
        folder = self._folder() / f"case-{case.seed}-{case.number}" / "bed"
        folder.mkdir(parents=True)
        bed = self._bed(folder)
        self.clocks.stop()
        if any(hit.kind == "CLOCK" for hit in case.hits):
            self.clocks.start()
            bed.environ |= clock.environment(self._clocks)
        return bed

    def _folder(self) -> Path:
        """Seen by all hosts."""
        return self.folder

    def _bed(self, folder: Path) -> CommandBed:
        return CommandBed(folder)

    def model(self, case: Case, bed: CommandBed) -> Path:
        """The folder of the checkpoints."""
        return bed.folder / "model"

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

    def daemons(self, host: str) -> list[psutil.Process]:
        """Of the batch system, there."""
        return []

    def revive(self, host: str) -> None:
        """Have the daemon run again, as an init system would."""

    def left(self, bed: CommandBed) -> list[str]:
        """What lives there, which after a run is too much."""
        return [describe(process) for process in bed.processes()]

    def clear(self, bed: CommandBed) -> None:
        bed.end()


class Hosts(Ground):
    """Three hosts with two slots each, so that the tasks of one find room on the others."""

    place = HOSTS

    def __init__(self, folder: Path, hosts: HostBed, clocks: Path, disk: Path) -> None:
        super().__init__(folder, clocks)
        self._hosts, self._disk = hosts, disk
        self._by_name = {host.name: host for host in hosts.hosts}

    def _folder(self) -> Path:
        return self._hosts.shared

    def _bed(self, folder: Path) -> CommandBed:
        cache = {"HOME": str(self._hosts.home), "XDG_CACHE_HOME": str(self.folder / "cache")}
        return CommandBed(folder, cache)

    def model(self, case: Case, bed: CommandBed) -> Path:
        filled = any((hit.kind, hit.victim) == ("DISK", "model") for hit in case.hits)
        return self._disk / "model" if filled else super().model(case, bed)

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
        for entry in self._disk.iterdir():
            shutil.rmtree(entry)
        for host in self._hosts.hosts:
            host.end_programs()
            self.run(host.name, "nft", "flush", "ruleset")


class Nodes(Ground):
    """An allocation of three nodes of two CPUs for each run."""

    place = SLURM

    def __init__(self, folder: Path, slurm: SlurmBed) -> None:
        super().__init__(folder)
        self._slurm = slurm

    def _bed(self, folder: Path) -> CommandBed:
        options = ("--quiet", "--nodes=3", "--ntasks-per-node=3", "--no-kill")
        return CommandBed(
            folder,
            {**self._slurm.environ, "XDG_CACHE_HOME": str(self.folder / "cache")},
            ("salloc", *options, sys.executable, "-m", "psclust"),
        )

    def on_host(self, bed: CommandBed, host: str) -> list[psutil.Process]:
        space = next((_name_space(process.pid) for process in self.daemons(host)), None)
        found = []
        for process in self._slurm.processes():
            with suppress(psutil.Error):
                # A step's daemon has the environment of slurmd, and its host name.
                if process.environ().get("SLURMD_NODENAME") == host or (
                    process.name() == "slurmstepd" and _name_space(process.pid) == space
                ):
                    found.append(process)
        return found

    def daemons(self, host: str) -> list[psutil.Process]:
        node = next(node for node in self._slurm.nodes if node.name == host)
        return [psutil.Process(node.slurmd.pid)] if node.slurmd.poll() is None else []

    def revive(self, host: str) -> None:
        node = next(node for node in self._slurm.nodes if node.name == host)
        if node.slurmd.poll() is None:
            node.slurmd.send_signal(signal.SIGCONT)
        else:
            self._slurm.start_slurmd(node)

    def left(self, bed: CommandBed) -> list[str]:
        return [*super().left(bed), *self._slurm.jobs()]

    def clear(self, bed: CommandBed) -> None:
        super().clear(bed)
        self._slurm.run("scancel", "--user", "root", check=False)
        for node in self._slurm.nodes:
            assert node.network is not None
            flush = [*node.network.command(node.name), "nft", "flush", "ruleset"]
            subprocess.run(flush, check=False, capture_output=True)


def _name_space(pid: int) -> str:
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/uts")
    return ""


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
            yield _hosts(folder, stack)
        elif place == SLURM:
            slurm = stack.enter_context(slurm_bed(folder / "slurm", 3, isolated=True))
            yield Nodes(folder, slurm)
        else:
            yield Ground(folder)
    if not list(folder.glob("**/case-*")):
        shutil.rmtree(folder)  # nothing is kept


def _hosts(folder: Path, stack: ExitStack) -> Hosts:
    """With a disk that all of them see, and which may be full."""
    bed, disk = folder / "hosts", folder / "hosts" / "disk"
    disk.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "chaos", str(disk)]
    subprocess.run(mount, check=True)
    stack.callback(subprocess.run, ["umount", "--lazy", str(disk)], check=False)
    environ = clock.environment(bed / "clock")
    return Hosts(
        folder, stack.enter_context(host_bed(bed, 3, environ=environ)), bed / "clock", disk
    )
