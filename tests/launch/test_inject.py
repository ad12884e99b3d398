"""`psclust inject` on live runs: what it does happens, ends by itself, and is recorded."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest
from on_hosts import PATIENT, isolated, write_file

from beds.command import CommandBed, typed
from beds.hosts import BedHost, HostBed
from psclust.rundir.events_file import read_events
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process

SLEEP = typed("--ps 0 --workers 2 -- sleep 600")


@pytest.fixture
def asleep(bed: CommandBed) -> Iterator[CommandBed]:
    """A run of two tasks that sleep."""
    bed.done("up", "-d", *SLEEP)
    yield bed
    bed.run("down", "--now")


def answers(host: BedHost) -> bool:
    """Whether packets get there and back."""
    with suppress(OSError), socket.create_connection((host.address, host.port), timeout=0.5):
        return True
    return False


def tables(host: BedHost) -> bool:
    return "psclust_inject" in host.run("nft", "list", "tables")


def notes(bed: CommandBed) -> list[str]:
    return [
        event["text"] for event in read_events(bed.run_folder().events) if event["kind"] == "note"
    ]


def test_a_killed_task_is_started_again_and_the_events_say_who_did_it(asleep: CommandBed) -> None:
    said = asleep.done_here("inject", "kill", "worker:1")
    assert "worker:1 on localhost was killed by SIGKILL" in said
    asleep.wait_for("worker:1", "running", attempt=2)
    assert notes(asleep)[0].endswith("was killed by SIGKILL (psclust inject)")


def test_a_frozen_task_goes_on_although_the_command_is_killed(asleep: CommandBed) -> None:
    running = asleep.start("inject", "freeze", "worker:0", "--for", "2", "--every", "600")
    pid = asleep.wait_for("worker:0", "running").pid
    assert pid is not None
    process = psutil.Process(pid)
    wait_until(lambda: process.status() == psutil.STATUS_STOPPED, what="a frozen task")
    running.process.kill()
    running.wait()
    wait_until(lambda: process.status() != psutil.STATUS_STOPPED, what="its waking")
    assert asleep.wait_for("worker:0", "running").attempt == 1


def test_one_task_of_a_job_after_the_other_until_the_run_ends(asleep: CommandBed) -> None:
    running = asleep.start("inject", "kill", "worker", "--every", "0.6", "--seed", "1")
    running.until("was killed", 2)
    asleep.done("down", "--now")
    assert running.wait() == 0, running.output
    assert "has ended" in running.output


def test_the_supervisor_can_be_killed_and_has_recorded_why(bed: CommandBed) -> None:
    up = bed.start("up", *SLEEP)
    bed.wait_for("worker:1", "running")
    bed.done_here("inject", "kill", "supervisor")
    assert up.wait() == 1, up.output
    assert "the supervisor was killed by SIGKILL" in up.output
    assert "(psclust inject)" in notes(bed)[0]


def test_links_of_this_machine_are_left_alone(asleep: CommandBed) -> None:
    assert "only links of other hosts" in asleep.fails_here(2, "inject", "cut", "worker:0")
    said = asleep.fails_here(2, "inject", "freeze", "worker", "--for", "5", "--every", "2")
    assert "--every 2: must be longer than --for 5" in said


@pytest.mark.long
@isolated
def test_a_cut_host_heals_by_itself_even_if_the_command_dies(
    far: CommandBed, hosts: HostBed
) -> None:
    write_file(far, hosts, PATIENT, hosts=["h1", "h2"], jobs={"worker": 2})
    up = far.start("up")
    for task in ("worker:0", "worker:1"):
        far.wait_for(task, "running")
    assert "confirm with --yes" in far.fails(2, "inject", "cut", "h2")
    far.done("inject", "cut", "h2", "--for", "6", "--yes")
    wait_until(lambda: not answers(hosts[1]), what="the cut")
    wait_until(lambda: answers(hosts[1]), what="the healing")
    wait_until(lambda: not tables(hosts[1]), what="the end of the kernel's table")
    assert far.wait_for("worker:1", "running").attempt == 1
    far.done("inject", "slow", "worker:1", "--for", "600", "--yes")
    wait_until(lambda: tables(hosts[1]), what="slow links")
    far.done("inject", "kill", "h2", "--yes")
    events = far.run_folder().events
    wait_until(
        lambda: any(event["kind"] == "host_lost" for event in read_events(events)),
        what="the loss of the host",
    )
    hosts[1].run("nft", "delete", "table", "inet", "psclust_inject")
    up.process.send_signal(signal.SIGINT)
    up.wait()
    assert json.dumps(notes(far)).count("(psclust inject)") == 3
