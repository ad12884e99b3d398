"""`psclust up` on hosts with a standing agent on one: processes there descend from it and end with
it."""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

import psclust
from beds.command import CommandBed
from beds.host_fixtures import hosts_of_file
from beds.hosts import BedHost, HostBed
from beds.processes import words_of
from psclust.rundir.status import TaskStatus
from psclust.testing.wait import wait_until

pytestmark = [
    pytest.mark.process,
    pytest.mark.tensorflow,
    pytest.mark.skipif(
        os.geteuid() != 0,
        reason="hosts with processes of their own are namespaces, which need root",
    ),
]

PACKAGE = Path(psclust.__file__).parent
# Files that a process may open: a limit by which what a service starts can be told from what a
# log-in starts.
FILES = 4321


hosts = hosts_of_file(2)


@pytest.fixture
def far(hosts: HostBed, bed: CommandBed) -> CommandBed:
    """A command that knows the hosts."""
    bed.environ |= {"HOME": str(hosts.home)}
    return bed


@pytest.fixture
def stand(hosts: HostBed) -> Iterator[Callable[[Path], psutil.Process]]:
    """Starts a standing agent on the first host, of the psclust in a folder, as a service with a
    limit would be. Afterwards nothing may live on any host."""
    host = hosts[0]

    def stand(folder: Path) -> psutil.Process:
        service = [
            "prlimit",
            f"--nofile={FILES}",
            sys.executable,
            "-m",
            "psclust.agent",
            "--standing",
        ]
        host.run("mkdir", "-p", "-m", "700", "/run/user/0")
        start = 'exec setsid env "$@" </dev/null >/run/user/0/log 2>&1 &'
        host.run("sh", "-c", start, "start", f"PYTHONPATH={folder}", "HOME=/run/home", *service)
        wait_until(
            lambda: "listening" in host.run("cat", "/run/user/0/log"), what="the standing agent"
        )
        return next(process for process in host.processes() if "--standing" in words_of(process))

    yield stand
    for process in host.processes():
        with suppress(psutil.Error):
            if "--standing" in words_of(process):
                process.terminate()
    wait_until(
        lambda: not [line for host in hosts.hosts for line in host.programs()],
        what="the end of everything on the hosts",
    )


def seen_from_here(host: BedHost, task: TaskStatus) -> psutil.Process:
    """The process that a task is on its host."""
    for process in host.processes():
        with suppress(OSError):
            text = Path(f"/proc/{process.pid}/status").read_text()
            if f"NSpid:\t{process.pid}\t{task.pid}\n" in text:
                return process
    raise AssertionError(f"{task.task} is not on {host.name}")


def test_tasks_are_below_it_under_its_limits_and_end_when_it_is_stopped_which_the_run_names(
    far: CommandBed, hosts: HostBed, stand: Callable[[Path], psutil.Process]
) -> None:
    standing = stand(PACKAGE.parent)
    far.done("up", "-d", "-H", hosts.names, "--ps", "1", "--workers", "1")
    below, beside = (
        seen_from_here(host, far.wait_for(task, "running"))
        for host, task in zip(hosts.hosts, ("ps:0", "worker:0"), strict=True)
    )
    assert standing in below.parents()
    assert below.rlimit(resource.RLIMIT_NOFILE) == (FILES, FILES)
    assert beside.rlimit(resource.RLIMIT_NOFILE) != (FILES, FILES)
    # Whoever has started the run has logged out long ago; now the service is stopped.
    standing.terminate()
    text = far.wait_for_end().text
    assert "host h1 is lost, with ps:0: its agent has stopped: it got SIGTERM" in (text or "")
    wait_until(
        lambda: not standing.is_running() or standing.status() == psutil.STATUS_ZOMBIE,
        what="the end of the standing agent",
    )
    wait_until(
        lambda: not below.is_running() or below.status() == psutil.STATUS_ZOMBIE,
        what="the end of the task",
    )


def test_of_another_version_it_is_the_parent_of_the_launchers_version_all_the_same(
    far: CommandBed, hosts: HostBed, stand: Callable[[Path], psutil.Process]
) -> None:
    other = hosts.shared / "other"
    shutil.copytree(PACKAGE, other / "psclust", ignore=shutil.ignore_patterns("__pycache__"))
    # Were its own code what runs are started with, none would start.
    (other / "psclust" / "agent" / "process.py").write_text(
        "raise SystemExit('this is another version')\n"
    )
    stand(other)
    script = (
        "import psutil, psclust\nprint(psclust.__file__, "
        "[parent.cmdline()[-1] for parent in psutil.Process().parents()])\n"
    )
    far.write("train.py", script)
    far.write(
        "psclust.yaml",
        json.dumps(
            {"hosts": ["h1"], "program": "train.py", "preload": False, "jobs": {"worker": 1}}
        ),
    )
    said = far.done("up")
    assert "'--here', '--here', '--standing'" in said
    assert str(other) not in said
