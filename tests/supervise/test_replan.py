"""A supervisor that loses a host, with a transport that only pretends: what is planned, reserved,
started and said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pretence import Pretence, supervised

from psclust.errors import StartError, UsageError
from psclust.plan.build_plan import Run, build_plan
from psclust.plan.plan_inputs import PlanInputs, RemoteHost
from psclust.plan.port_request import PortRequest
from psclust.plan.task_environment import HostEnvironment
from psclust.plan.task_plan import Plan
from psclust.rundir.folder import RunFolder
from psclust.rundir.status import RunStatus
from psclust.spec.cluster import Host, Task
from psclust.spec.cluster_file import ClusterFile, Deadlines
from psclust.supervise.events import HostLost
from psclust.supervise.replan import write_plan_inputs
from psclust.supervise.supervisor import Supervisor
from psclust.testing.wait import wait_until

PS, WORKER = Task("ps", 0), Task("worker", 0)
SILENCE = "its agent has not answered for 31 s"


@dataclass
class Live:
    """One ps on a and one worker on b; c and d are spare."""

    folder: RunFolder
    supervisor: Supervisor
    transport: Pretence
    plan: Plan

    def on(self) -> dict[str, str]:
        return {task.task: f"{task.host} {task.phase}" for task in self.supervisor.status().tasks}

    def wait_for(self, **hosts: str) -> None:
        wanted = {f"{job}:0": f"{host} running" for job, host in hosts.items()}
        wait_until(lambda: self.on() == wanted, what=str(wanted))

    def end(self) -> RunStatus:
        return wait_until(
            lambda: self.supervisor.status() if self.supervisor.status().ended else None,
            what="the end",
        )  # type: ignore[return-value]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    file = ClusterFile(
        name="test",
        hosts=[Host(name, 1) for name in "abcd"],
        jobs={"ps": {}, "worker": {}},  # type: ignore[dict-item]
        program="train.py",
        deadlines=Deadlines(stop=0),
        restart={"backoff": 0},  # type: ignore[arg-type]
    )
    remote_hosts = {
        name: RemoteHost(HostEnvironment({}, "/", "python", "shim"), f"/{name}", f"10.0.0.{number}")
        for number, name in enumerate("abcd", 1)
    }
    inputs = PlanInputs(file, {}, remote_hosts, HostEnvironment({}, "", "", None))
    with supervised(tmp_path, Pretence) as transport:
        supervisor = transport.supervisor
        folder = supervisor.folder
        write_plan_inputs(folder, inputs)
        run = Run(folder.id, str(folder.path))
        plan = build_plan(inputs, inputs.lay_out(), run, {PS: 2000, WORKER: 2001})
        supervisor.apply(plan)
        found = Live(folder, supervisor, transport, plan)
        found.wait_for(ps="a", worker="b")
        yield found


def test_who_was_on_the_lost_host_gets_a_port_elsewhere_and_everybody_else_keeps_his(
    live: Live,
) -> None:
    live.supervisor.post(HostLost("b", SILENCE))
    live.wait_for(ps="a", worker="c")
    assert [(request.task, request.on, request.host) for request in live.transport.reserved] == [
        (WORKER, "c", "10.0.0.3")
    ]
    assert live.transport.started[2:] == [
        (PS, "a", "10.0.0.1:2000"),
        (WORKER, "c", "10.0.0.3:3000"),
    ]
    (note,) = [note for note in live.supervisor.status().notes if "lost" in note]
    assert note.startswith(
        f"host b is lost, with worker:0: {SILENCE}; moved: worker:0 to c; all tasks start again"
    )
    assert Plan.from_json(live.folder.plan.read_text()).lost == ("b",)


def test_a_spare_host_that_is_silent_too_is_passed_over(live: Live) -> None:
    live.transport.dead = {"b", "c"}
    live.supervisor.post(HostLost("b", SILENCE))
    live.wait_for(ps="a", worker="d")
    assert Plan.from_json(live.folder.plan.read_text()).lost == ("b", "c")


def test_a_place_that_cannot_be_had_ends_the_run_with_both_reasons(live: Live) -> None:
    def refuse(requests: Sequence[PortRequest]) -> dict[Task, int]:
        raise StartError("c: its agent does not answer.")

    live.transport.reserve = refuse  # type: ignore[method-assign]
    live.supervisor.post(HostLost("b", SILENCE))
    assert (
        live.end().text == f"host b is lost, with worker:0: {SILENCE}; c: its agent does not answer"
    )


def test_a_plan_for_a_host_that_was_lost_meanwhile_is_refused(live: Live) -> None:
    live.supervisor.post(HostLost("b", SILENCE))
    live.wait_for(ps="a", worker="c")
    with pytest.raises(UsageError, match="b: lost by this run, which goes on without"):
        live.supervisor.apply(live.plan)
    live.supervisor.apply(replace(Plan.from_json(live.folder.plan.read_text()), notes=()))
    assert live.on() == {"ps:0": "a running", "worker:0": "c running"}
