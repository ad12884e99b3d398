"""What a plan is made of survives a file, and makes the same plan again; without a lost host, one
that names no address of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from beds.found_nodes import find_four_nodes
from psclust.plan.build_plan import Run, build_plan
from psclust.plan.diff import compare
from psclust.plan.plan_inputs import PlanInputs, RemoteHost
from psclust.plan.script_facts import ScriptFacts
from psclust.plan.task_environment import HostEnvironment
from psclust.spec.cluster import Task
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.load import load

SPECS = Path(__file__).parents[2] / "cluster_specs"
RUN = Run("r1", "/runs/r1")
HERE = HostEnvironment({}, "", "", None)


def remote_hosts(*hosts: str) -> dict[str, RemoteHost]:
    return {
        host: RemoteHost(
            HostEnvironment(
                {"LD_PRELOAD": ""}, f"/{host}/cwd", f"/{host}/python", f"/{host}/shim.so"
            ),
            f"/{host}/run",
            f"10.0.0.{number}",
        )
        for number, host in enumerate(hosts, 1)
    }


def inputs(**keys: object) -> PlanInputs:
    file = ClusterFile.model_validate(
        {"name": "test", "jobs": {"ps": {}, "worker": {"count": 2}}, **keys}, strict=False
    )
    return PlanInputs(file, {}, remote_hosts("a", "b", "c"), HERE)


@pytest.mark.parametrize("path", sorted(SPECS.glob("*.yaml")), ids=lambda path: path.stem)
def test_it_makes_the_same_plan_after_a_trip_to_a_file(path: Path) -> None:
    file = load(path, [], default_name=path.stem, find_hosts=find_four_nodes)
    known = remote_hosts(*(host.name for host in file.hosts))
    facts = {"worker": ScriptFacts(("--job_name", "--task_index"), reads_tf_config=True)}
    made = PlanInputs(file, facts, known, HERE)
    back = PlanInputs.from_json(made.to_json())
    assert back.file.model_dump() == file.model_dump()
    assert build_plan(back, back.lay_out(), RUN, {}) == build_plan(made, made.lay_out(), RUN, {})


def test_after_a_move_bare_servers_still_let_in_the_machine_that_started_them() -> None:
    made = inputs(hosts=[{"name": name, "slots": 2} for name in "abc"])
    made = PlanInputs.from_json(
        replace(
            made, launcher=HostEnvironment({}, "", "", None, addresses=("10.0.0.99",))
        ).to_json()
    )
    plan = build_plan(made, made.lay_out(("b",)), RUN, {})
    assert all(each.env["PSCLUST_ADMIT"].endswith("10.0.0.99") for each in plan.tasks)


def test_without_a_lost_host_its_task_is_elsewhere_and_everybody_is_told() -> None:
    made = inputs(
        hosts=[{"name": "a", "slots": 1}, {"name": "b", "slots": 1}, {"name": "c", "slots": 2}],
        program="train.py",
    )
    ports = {Task("ps", 0): 2000, Task("worker", 0): 2001, Task("worker", 1): 2002}
    old, new = (build_plan(made, made.lay_out(lost), RUN, ports) for lost in ((), ("b",)))
    assert (old[Task("worker", 0)].host, new[Task("worker", 0)].host, new.lost) == (
        "b",
        "c",
        ("b",),
    )
    assert new[Task("worker", 0)].address == "10.0.0.3:2001"
    assert new[Task("worker", 0)].cwd == "/c/cwd"
    assert "10.0.0.2" not in new.to_json()
    assert set(compare(old, new).changed) == {task.task for task in old.tasks}
