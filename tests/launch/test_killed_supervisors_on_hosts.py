"""Runs on hosts whose supervisor is killed: what goes on there, for how long, and what the next
command does about it."""

from __future__ import annotations

import time

import pytest
from on_hosts import PATIENT, isolated, left, write_file

from beds.command import CommandBed, Running
from beds.hosts import HostBed
from psclust.rundir.agents_file import read_agents
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process

# So long that nothing in a test ends by it.
LEASE_S = 100


def _up(far: CommandBed, hosts: HostBed, lease_s: int = LEASE_S) -> Running:
    write_file(
        far,
        hosts,
        PATIENT,
        hosts=["h1", "h2"],
        jobs={"worker": 2},
        deadlines={"lease": lease_s, "stop": 2},
    )
    running = far.start("up")
    far.wait_for("worker:0", "running")
    far.wait_for("worker:1", "running")
    return running


def _kill_supervisor(far: CommandBed, running: Running) -> None:
    far.supervisor().kill()
    running.wait()
    wait_until(lambda: not far.cluster().is_live(), what="the end of its guard")


def test_a_killed_supervisor_leaves_tasks_on_hosts_says_so_and_the_next_up_ends_them_first(
    far: CommandBed, hosts: HostBed
) -> None:
    first = _up(far, hosts)
    assert read_agents(far.run_folder()) is not None
    _kill_supervisor(far, first)
    assert first.process.returncode == 1
    assert (
        "every task of the run here was stopped, those on h1, "
        "h2 end by themselves within 111 s (deadlines.lease)." in first.output
    )
    before = set(left(hosts))
    assert len([program for program in before if "train.py" in program]) == 2
    run = far.run_folder()
    second = _up(far, hosts)
    assert "an earlier run lost its supervisor; ending what it has left on h1, h2" in second.output
    assert len([program for program in left(hosts) if "train.py" in program]) == 2
    assert read_agents(run) is None
    second.interrupt()
    assert second.wait() == 130
    assert read_agents(far.run_folder()) is None


def test_down_ends_what_a_killed_supervisor_has_left(far: CommandBed, hosts: HostBed) -> None:
    _kill_supervisor(far, _up(far, hosts))
    assert left(hosts)
    said = far.done("down")
    assert "an earlier run lost its supervisor; ending what it has left on h1, h2" in said
    assert not left(hosts)
    assert "lost its supervisor" not in far.run("down")[1]


@isolated
@pytest.mark.long
def test_a_host_that_cannot_be_reached_is_waited_for_until_its_lease_is_over(
    far: CommandBed, hosts: HostBed
) -> None:
    _kill_supervisor(far, _up(far, hosts, lease_s=5))
    began = time.monotonic()
    hosts.hosts[1].cut()
    try:
        write_file(far, hosts, "print('here')\n", hosts=["h1"], jobs={"worker": 1})
        code, said = far.run("up")
    finally:
        hosts.hosts[1].heal()
    assert code == 0, said
    assert "until the tasks of the earlier run there have ended" in said
    assert time.monotonic() - began > 5
    assert not left(hosts)
