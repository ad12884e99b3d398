"""The plan of an elastic run without the hosts that it has lost, and without workers that have
failed for good."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from psclust.errors import NoRoomError
from psclust.plan.build_plan import Run, build_plan
from psclust.plan.diff import compare
from psclust.plan.plan_inputs import PlanInputs, RemoteHost
from psclust.plan.port_request import PortRequest
from psclust.plan.task_environment import HostEnvironment
from psclust.plan.task_plan import Plan
from psclust.rundir.folder import ClusterFolder
from psclust.spec.cluster import Host, Task
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.jobs import BETWEEN_GRAPH, IN_GRAPH
from psclust.supervise.events import Move, Outcome, Replace
from psclust.supervise.replan import (
    plan_elsewhere,
    plan_without,
    write_plan_inputs,
)

W1, W2, W3 = (Task("worker", index) for index in (1, 2, 3))
WHY = "host c is lost"


class Elastic:
    """A run of one ps and four workers on these hosts, `slots` of each."""

    def __init__(self, folder: Path, hosts: str, slots: int, least: int, **keys: Any) -> None:
        jobs = {"ps": 1, "worker": {"count": 4, "min": least}}
        file = ClusterFile(
            name="test",
            hosts=[Host(name, slots) for name in hosts],
            program="a:b",
            input="handed_out",
            jobs=jobs,  # type: ignore[arg-type]
            **keys,
        )
        here = HostEnvironment({}, "/", "python", None)
        remote = {name: RemoteHost(here, f"/{name}", f"10.0.0.{name}") for name in hosts}
        self.inputs = PlanInputs(file, {}, remote, here)
        self.folder = ClusterFolder(folder / "test").new_run()
        write_plan_inputs(self.folder, self.inputs)
        self.ports = itertools.count(3000)

    def start(self, *lost: str) -> Plan:
        layout = self.inputs.lay_out(lost)
        run = Run(self.folder.id, str(self.folder.path))
        return build_plan(self.inputs, layout, run, self.reserve(layout.port_requests("auto")))

    def reserve(self, requests: Sequence[PortRequest]) -> dict[Task, int]:
        return {request.task: next(self.ports) for request in requests}

    def without(self, old: Plan, lost: Sequence[str], absent: Sequence[Task] = ()) -> Plan:
        move = Move(tuple(lost), Outcome(False, 1, WHY), vital=True, absent=tuple(absent))
        return plan_without(self.folder, old, move, lost, self.reserve)


def places(plan: Plan) -> str:
    return " ".join(
        f"{entry.task.job[0]}{entry.task.index}:{entry.host}"
        for entry in plan.tasks
        if entry.host not in plan.lost
    )


def test_asynchronous_workers_train_on_without_those_of_a_lost_host(tmp_path: Path) -> None:
    run = Elastic(tmp_path, "abcde", 1, 2)
    old = run.start()
    new = run.without(old, ["c"])
    assert places(new) == "p0:a w0:b w2:d w3:e"
    assert compare(old, new).render() == []
    assert new.notes[-1] == (
        f"{WHY}; the run goes on with 3 workers; nobody else stops; "
        "once it answers, psclust scale -H +c takes it back"
    )
    again = run.without(new, ["c", "e"])
    assert places(again) == "p0:a w0:b w2:d"
    with pytest.raises(NoRoomError, match="fewer than 2 would be left"):
        run.without(again, ["c", "e", "d"])


def test_a_worker_moves_while_there_is_a_spare_slot_and_comes_back_when_there_is_one(
    tmp_path: Path,
) -> None:
    run = Elastic(tmp_path, "abcdef", 1, 2)
    old = run.start()
    new = run.without(old, ["c"])
    assert places(new) == "p0:a w0:b w1:f w2:d w3:e"
    assert new.notes[-1] == f"{WHY}; moved: worker:1 to f; nobody else stops"
    fewer = run.without(new, ["c", "f"])
    assert places(fewer) == "p0:a w0:b w2:d w3:e"
    more = [*run.inputs.file.hosts, Host("g", 1)]
    here = run.inputs.remote_hosts["a"]
    grown = replace(
        run.inputs,
        file=run.inputs.file.model_copy(update={"hosts": more}),
        remote_hosts={**run.inputs.remote_hosts, "g": replace(here, address="10.0.0.g")},
    )
    layout = grown.lay_out(["c", "f"], fewer.hosts)
    assert layout.hosts[W1].name == "g"


@pytest.mark.parametrize(
    ("keys", "again"),
    [
        ({"update": "sync"}, {"worker:0", "worker:1", "worker:2"}),
        ({"replication": IN_GRAPH}, {"client:0", "worker:1"}),
        ({"update": "sync", "replication": IN_GRAPH}, {"client:0", "worker:1"}),
    ],
)
def test_where_the_graph_knows_all_workers_they_are_numbered_anew_and_the_ps_lives_on(
    keys: dict[str, str], again: set[str], tmp_path: Path
) -> None:
    run = Elastic(tmp_path, "abcdef"[: 6 if "replication" in keys else 5], 1, 2, **keys)
    old = run.start()
    host = old.hosts[W1]
    new = run.without(old, [host])
    assert new.hosts[W1] == old.hosts[W3]
    assert {entry.task.index for entry in new.tasks if entry.task.job == "worker"} == {0, 1, 2}
    changes = compare(old, new)
    assert {str(task) for task in changes.changed} == again
    assert changes.removed == (W3,)
    assert new.notes[-1].startswith(f"{WHY}; the run goes on with 3 workers; moved: worker:1 to ")


def test_without_a_worker_that_fails_for_good_the_last_one_has_its_number(tmp_path: Path) -> None:
    run = Elastic(tmp_path, "abcde", 1, 3, update="sync")
    new = run.without(run.start(), [], [W1])
    assert places(new) == "p0:a w0:b w1:e w2:d"
    with pytest.raises(NoRoomError, match="fewer than 3 would be left"):
        run.without(new, ["d"], [W1])


@pytest.mark.parametrize("replication", [BETWEEN_GRAPH, IN_GRAPH])
def test_a_run_starts_on_the_hosts_that_are_there(replication: str, tmp_path: Path) -> None:
    run = Elastic(tmp_path, "abc", 2, 2, replication=replication)
    plan = run.start("b")
    workers = "p0:a w0:c w1:a w2:c" if replication == BETWEEN_GRAPH else "p0:a w0:c w1:a c0:c"
    assert workers in places(plan)
    assert plan.lost == ("b",)
    with pytest.raises(NoRoomError):
        run.start("b", "c")


def test_what_fails_for_good_is_not_counted_twice(tmp_path: Path) -> None:
    run = Elastic(tmp_path, "abcde", 1, 2)
    old = run.start()
    with pytest.raises(NoRoomError, match="no spare slot"):
        run.without(old, [], [W2])
    new = run.without(old, ["c"], [W2])
    assert f"{WHY}; the run goes on with 2 workers; nobody else stops" in new.notes[-1]


def test_a_slow_worker_gets_a_spare_slot_of_another_host(tmp_path: Path) -> None:
    run = Elastic(tmp_path, "abcdef", 1, 2)
    old = run.start()
    slow = Replace(W1, 4.25)
    new = plan_elsewhere(run.folder, old, slow, (), run.reserve)
    assert places(new) == "p0:a w0:b w1:f w2:d w3:e"
    assert set(compare(old, new).changed) == {W1}
    assert new.notes[-1] == (
        "worker:1 made steps 4.2 times slower than the median of all workers over a minute "
        "(replace_slow); moved: worker:1 to f"
    )
    with pytest.raises(NoRoomError, match="there is no spare slot on another host"):
        plan_elsewhere(run.folder, old, slow, ("f",), run.reserve)
