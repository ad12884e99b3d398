"""Which worker is slow, and when it gets another place."""

from __future__ import annotations

from dataclasses import replace

import pytest
from histories import LIMITS, PS, W0, W1, Replay, make_plan, task_plan

from psclust.plan.task_plan import Plan
from psclust.spec.cluster import Task
from psclust.supervise.events import (
    Apply,
    Exited,
    HostLost,
    Replace,
    Restart,
    Slow,
    Started,
    Tick,
)
from psclust.supervise.explain import Evidence, explain
from psclust.supervise.reading import Reading
from psclust.supervise.run_state import TaskPhase
from psclust.supervise.slow_workers import AGAIN_S, SlowWorkers, slowest
from psclust.supervise.state_machine import transition

CHIEF, W2 = Task("chief", 0), Task("worker", 2)


@pytest.mark.parametrize(
    ("rates", "found"),
    [
        ({W0: 100, W1: 100, W2: 30}, (W2, 100 / 30)),
        ({W0: 100, W1: 100, W2: 40}, None),
        ({W0: 30, W1: 100, W2: 100}, None),
        ({CHIEF: 30, W0: 100, W1: 100}, None),
        ({W0: 100, W1: 20, W2: 10}, None),
        ({CHIEF: 100, W0: 100, W1: 20, W2: 10}, (W2, 6.0)),
        ({W0: 100, W1: 10}, (W1, 5.5)),
        ({W1: 10}, None),
        ({W0: 0, W1: 0, W2: 0}, None),
        ({W0: 100, W1: 100, W2: 0}, (W2, float("inf"))),
    ],
)
def test_the_worker_furthest_behind_the_median(
    rates: dict[Task, float], found: tuple[Task, float] | None
) -> None:
    assert slowest(rates, 3.0) == found


def reading(task: Task, rate: float, attempt: int = 1, state: str = "running") -> Reading:
    return Reading(str(task), "program", "a", state, attempt, examples_per_s=rate)


def after(slow: SlowWorkers, *times: float, attempt: int = 1) -> list[Slow | None]:
    return [
        slow.take([reading(W0, 90), reading(W1, 90), reading(W2, 10, attempt)], now, 3.0)
        for now in times
    ]


def test_rates_are_compared_over_a_minute_of_an_attempt() -> None:
    slow = SlowWorkers()
    assert after(slow, 0, 20, 40, 59) == [None] * 4
    assert after(slow, 60) == [Slow(W2, 9.0)]
    assert after(slow, 80, 100, 120, attempt=2) == [None] * 3
    assert after(slow, 140, attempt=2) == [Slow(W2, 9.0)]


def test_a_minute_of_few_looks_is_longer_and_one_that_recovers_is_not_slow() -> None:
    slow = SlowWorkers()
    assert after(slow, 0, 100) == [None, None]
    assert after(slow, 200) == [Slow(W2, 9.0)]
    for now in (300, 400, 500):
        found = slow.take([reading(W0, 90), reading(W1, 90), reading(W2, 90)], now, 3.0)
    assert found is None


def elastic(**changes: object) -> Plan:
    tasks = [
        task_plan(task, host=host, grows=task.job == "worker", leaves=task.job == "worker")
        for task, host in {PS: "a", W0: "a", W1: "b", W2: "c"}.items()
    ]
    return replace(make_plan(*tasks), **{"replace_slow": 3.0, **changes})  # type: ignore[arg-type]


def moved(plan: Plan, host: str, **changes: object) -> Plan:
    tasks = tuple(
        replace(each, host=host, env={"MOVED": host}) if each.task == W2 else each
        for each in plan.tasks
    )
    return replace(plan, tasks=tasks, **changes)  # type: ignore[arg-type]


def asked(run: Replay, now: float) -> list[Replace]:
    run.state, actions = transition(run.state, Slow(W2, 4.0), now)
    return [action for action in actions if isinstance(action, Replace)]


def test_a_slow_worker_leaves_and_starts_elsewhere_once_in_ten_minutes() -> None:
    run = Replay(elastic()).up()
    assert asked(run, 100) == [Replace(W2, 4.0)]
    assert run.at(100, Apply(moved(run.plan, "d"))) == ["USR2 worker:2"]
    assert run.state.tasks[W2].where == "c"
    assert run.at(101, Exited(W2, 0)) == ["start worker:2/2"]
    run.at(102, Started(W2, 9))
    assert run.state.tasks[W2].where == "d"
    assert asked(run, 100 + AGAIN_S - 1) == []
    assert asked(run, 100 + AGAIN_S) == [Replace(W2, 4.0)]


def test_one_at_a_time_changes_places_while_the_run_is_calm() -> None:
    run = Replay(elastic()).up()
    run.at(50, Restart(W1))
    assert asked(run, 100) == []
    run.at(101, Exited(W1, -15), Started(W1, 9))
    assert asked(run, 102) == [Replace(W2, 4.0)]


def test_without_the_key_nobody_changes_places() -> None:
    run = Replay(elastic(replace_slow=None)).up()
    assert asked(run, 100) == []


def test_the_old_host_is_lost_while_it_leaves() -> None:
    run = Replay(elastic()).up()
    asked(run, 100)
    run.at(100, Apply(moved(run.plan, "d")))
    assert run.at(101, HostLost("c", "silent")) == []
    assert run.at(101 + LIMITS.stop_s, Tick()) == ["start worker:2/2"]


def test_the_new_host_is_lost_while_it_leaves() -> None:
    run = Replay(elastic(min_workers=2)).up()
    asked(run, 100)
    plan = moved(run.plan, "d")
    run.at(100, Apply(plan))
    assert run.at(101, HostLost("d", "silent")) == ["move off d"]
    run.at(101, Apply(replace(plan, lost=("d",))))
    assert run.phase(W2) is TaskPhase.STOPPING
    assert run.at(102, Exited(W2, 0)) == []
    assert run.phase(W2) is TaskPhase.DROPPED


def test_why_says_where_a_slow_worker_goes() -> None:
    run = Replay(elastic()).up()
    asked(run, 100)
    run.at(100, Apply(moved(run.plan, "d")))
    found = {each.task: each.does for each in explain(Evidence(run.state, 101.0))}
    assert found["worker:2"] == "leaves host c, and starts on d"
