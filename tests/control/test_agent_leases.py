"""A real agent on a test host that its launcher does not reach, or that stands still, a while."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from started_agents import WORKER, Started

from beds.hosts import HostBed
from psclust.spec.cluster import Host
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process
isolated = pytest.mark.skipif(
    os.geteuid() != 0, reason="hosts that can be cut off are namespaces, which need root"
)


def test_tasks_and_agent_end_after_the_lease_without_a_launcher(
    start: Callable[..., Started],
) -> None:
    agent = start(lease_s=3.0)
    agent.run("import time; print('up', flush=True); time.sleep(1000)")
    wait_until(lambda: "up" in agent.log(), what="the task")
    agent.host.cut()
    try:
        if agent.host.isolated:
            wait_until(lambda: not agent.host.programs(), what="the end of all processes")
        agent.wait_for("lost", "h1")
    finally:
        agent.host.heal()
    wait_until(lambda: not agent.host.programs(), what="the end of all processes")


@isolated
def test_a_cut_shorter_than_the_lease_loses_nothing(start: Callable[..., Started]) -> None:
    agent = start(lease_s=30.0)
    agent.run("import time\nfor i in range(60): print(i, flush=True); time.sleep(0.1)")
    wait_until(lambda: "3\n" in agent.log(), what="the first lines")
    agent.host.cut()
    try:
        # Until lines are printed that nobody receives.
        own = Path(agent.reply.folder) / "logs" / "worker-0.1.log"
        far = agent.log().count("\n") + 15
        wait_until(
            lambda: int(agent.host.run("sh", "-c", f"wc -l < {own}")) > far,
            what="lines in the meantime",
        )
        assert agent.log().count("\n") < far
    finally:
        agent.host.heal()
    wait_until(lambda: ("exited", WORKER, 0) in agent.recorder.events, what="the end")
    assert agent.log().splitlines() == [str(number) for number in range(60)]
    assert agent.recorder.events == [("started", WORKER), ("exited", WORKER, 0)]


@isolated
@pytest.mark.parametrize(
    ("after", "via"),
    [
        (0.1, None),
        pytest.param(0.4, None, marks=pytest.mark.long),
        pytest.param(0.3, Host("h1"), marks=pytest.mark.long),
    ],
)
def test_a_cut_of_nine_tenths_of_the_lease_loses_nothing(
    start: Callable[..., Started],
    hosts: HostBed,
    monkeypatch: pytest.MonkeyPatch,
    after: float,
    via: Host | None,
) -> None:
    monkeypatch.setenv("HOME", str(hosts.home))
    agent = start(lease_s=10.0, via=via)
    agent.run("import time\nfor i in range(150): print(i, flush=True); time.sleep(0.1)")
    wait_until(lambda: "3\n" in agent.log(), what="the first lines")
    began = time.monotonic() + after
    wait_until(lambda: time.monotonic() >= began, what="another moment between two renewals")
    agent.host.cut()
    try:
        wait_until(lambda: time.monotonic() >= began + 0.9 * 10.0, what="the end of the cut")
    finally:
        agent.host.heal()
    agent.wait_for("exited", WORKER, 0)
    assert agent.log().splitlines() == [str(number) for number in range(150)]
    assert agent.recorder.events == [("started", WORKER), ("exited", WORKER, 0)]


def test_an_agent_that_was_suspended_ends_its_tasks_before_it_accepts_requests(
    start: Callable[..., Started],
) -> None:
    agent = start(lease_s=3.0)
    # Ignores TERM: its grace is over.
    agent.run(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print('up', flush=True); time.sleep(1000)"
    )
    wait_until(lambda: "up" in agent.log(), what="the task")
    agent.host.run("kill", "-STOP", str(agent.reply.pid))
    try:
        agent.run("print('again')", attempt=2)
        agent.wait_for("lost", "h1")
    finally:
        agent.host.run("kill", "-CONT", str(agent.reply.pid))
    wait_until(
        lambda: not any("signal.SIG_IGN" in program for program in agent.host.programs()),
        what="the end of the task",
    )
    wait_until(lambda: not agent.host.programs(), what="the end of all processes")
    assert not (Path(agent.reply.folder) / "logs" / "worker-0.2.log").exists()
    assert (
        "stopping: the supervisor has not renewed its lease"
        in (Path(agent.reply.folder) / "supervisor.log").read_text()
    )
