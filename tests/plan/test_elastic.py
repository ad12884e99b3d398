"""Runs with `input: handed_out`: what each task is told, and what a change of the counts means."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from script_sources import plan_of

from psclust.placement.home import VariablesHome
from psclust.plan.diff import compare, must_save
from psclust.plan.task_plan import Plan
from psclust.plan.variables_home import follow
from psclust.spec.cluster import Task

PORTS = {
    Task(job, index): 1000 * number + index
    for number, job in enumerate(("ps", "worker", "chief", "client", "evaluator"), 2)
    for index in range(5)
}
PS0, PS1, W0, W1 = Task("ps", 0), Task("ps", 1), Task("worker", 0), Task("worker", 1)


def plan(ps: int = 2, workers: int = 2, **file: Any) -> Plan:
    jobs = {"ps": ps, "worker": workers, **file.pop("jobs", {})}
    usual = {"program": "pkg.train:program", "input": "handed_out", "jobs": jobs}
    return plan_of(None, PORTS, **(usual | file))


def changed(old: Plan, new: Plan) -> list[str]:
    return compare(old, new).render()


@pytest.mark.parametrize("server", ["bare", "python"])
def test_a_server_boots_knowing_only_itself_and_a_program_knows_all(server: str) -> None:
    made = plan(jobs={"ps": {"count": 2, "server": server}})
    own = '{"ps":{"1":"127.0.0.1:2001"}}'
    assert made[PS1].argv[3:5] == ("--cluster", own)
    assert made[PS1].env["PSCLUST_CLUSTER"] == own
    assert "PSCLUST_INPUT" not in made[PS1].env
    assert made[W1].env["PSCLUST_INPUT"] == "handed_out"
    assert json.loads(made[W1].env["PSCLUST_CLUSTER"]) == made.cluster.as_dict()


def test_in_graph_workers_boot_alone_too_and_the_client_leaves() -> None:
    made = plan(replication="in-graph")
    assert made[W1].env["PSCLUST_CLUSTER"] == '{"worker":{"1":"127.0.0.1:3001"}}'
    client = made[Task("client", 0)]
    assert (client.leaves, client.grows, made[W1].leaves) == (True, False, False)


def test_without_the_key_everybody_knows_all_and_nobody_leaves() -> None:
    made = plan(input="sharded")
    assert {each.env["PSCLUST_CLUSTER"] for each in made.tasks} == {
        json.dumps(made.cluster.as_dict(), separators=(",", ":"))
    }
    assert not any(each.leaves or each.grows or "PSCLUST_INPUT" in each.env for each in made.tasks)


def test_who_lives_with_any_number_of_workers() -> None:
    jobs = {"chief": 1, "evaluator": 1}
    assert {str(each.task) for each in plan(jobs=jobs).tasks if each.grows} == {
        "chief:0",
        "worker:0",
        "worker:1",
        "evaluator:0",
    }
    sync = plan(jobs=jobs, update="sync")
    assert {str(each.task) for each in sync.tasks if each.grows} == {"evaluator:0"}
    assert {str(each.task) for each in sync.tasks if each.leaves} == {
        "chief:0",
        "worker:0",
        "worker:1",
    }


def test_more_or_fewer_workers_change_no_other_task_of_an_asynchronous_run() -> None:
    assert changed(plan(), plan(workers=4)) == ["+ worker:2", "+ worker:3"]
    assert changed(plan(workers=3), plan(workers=1)) == ["- worker:1", "- worker:2"]
    assert changed(plan(jobs={"chief": 1}), plan(workers=1, jobs={"chief": 1})) == ["- worker:1"]


def test_synchronous_workers_and_a_client_start_again_and_no_ps_does() -> None:
    assert changed(plan(update="sync"), plan(update="sync", workers=3)) == [
        "+ worker:2",
        "~ worker:0 (env.PSCLUST_CLUSTER)",
        "~ worker:1 (env.PSCLUST_CLUSTER)",
    ]
    assert changed(plan(replication="in-graph"), plan(replication="in-graph", workers=3)) == [
        "+ worker:2",
        "~ client:0 (env.PSCLUST_CLUSTER)",
    ]


@pytest.mark.parametrize(
    "other", [{"ps": 3}, {"env": {"LR": 2}}, {"update": "sync"}, {"placement": "balanced"}]
)
def test_any_other_difference_changes_asynchronous_workers(other: dict[str, Any]) -> None:
    assert {W0, W1} <= compare(plan(), plan(**other)).changed.keys()


def test_a_sharded_run_starts_again_whatever_count_changes() -> None:
    old = plan(input="sharded")
    everybody = {each.task for each in old.tasks}
    assert compare(old, plan(input="sharded", workers=3)).changed.keys() == everybody
    assert compare(old, plan(input="sharded", ps=3)).changed.keys() == everybody


def test_another_address_of_the_first_worker_concerns_all() -> None:
    old, new = plan(), plan()
    text = new[W1].env["PSCLUST_CLUSTER"].replace("3000", "3009")
    moved = replace(new[W1], env={**new[W1].env, "PSCLUST_CLUSTER": text})
    tasks = tuple(moved if each.task == W1 else each for each in new.tasks)
    again = replace(new, tasks=tasks)
    assert changed(old, again) == ["~ worker:1 (env.PSCLUST_CLUSTER)"]


def test_variables_move_to_other_ps_and_their_servers_live_on() -> None:
    old, new = plan(), plan(ps=3)
    assert must_save(new, compare(old, new))
    moved = follow(old, new)
    ps = ("127.0.0.1:2000", "127.0.0.1:2001")
    assert moved.home == VariablesHome("placement-2", "", ps)
    changes = compare(old, moved)
    assert not must_save(moved, changes)
    assert {str(task) for task in changes.changed} == {"worker:0", "worker:1"}
    again = follow(moved, plan())
    assert again.home == VariablesHome("placement-3", "placement-2", (*ps, "127.0.0.1:2002"))
    # What else follows has them there.
    assert changed(moved, follow(moved, plan(ps=3, workers=3))) == ["+ worker:2"]
    assert follow(old, old) == old


def test_variables_go_by_a_checkpoint_where_their_servers_do_not_live_on() -> None:
    for keys in ({"input": "sharded"}, {"python": "another"}):
        old = plan(**{**keys, "python": None})
        moved = follow(old, plan(ps=3, **keys))
        assert moved.home == VariablesHome()
        assert must_save(moved, compare(old, moved))
