"""Workers that a run does without (jobs.worker.min), by replaying histories."""

from __future__ import annotations

from dataclasses import replace

import pytest
from histories import LIMITS, PS, W0, W1, Replay, task_plan

from psclust.plan.task_plan import Plan, RestartPolicy, TaskPlan
from psclust.spec.cluster import ClusterSpec, Task
from psclust.supervise.events import (
    Apply,
    Exited,
    HostLost,
    Move,
    NotMoved,
    Outcome,
    Restart,
    Started,
    Stepped,
    Tick,
)
from psclust.supervise.explain import Evidence, explain
from psclust.supervise.run_state import RunPhase, TaskPhase
from psclust.supervise.state_machine import transition

W2 = Task("worker", 2)
LOST = HostLost("c", "its agent has not answered for 31 s")
ONCE = RestartPolicy("signal", 1, 600, 1, 30)
PLACES = {PS: "a", W0: "a", W1: "b", W2: "c"}


def elastic(least: int | None = 2, *, grows: bool = True, **changes: object) -> Plan:
    tasks = tuple(
        task_plan(task, host=host, restart=ONCE, grows=grows, leaves=True)
        if task.job == "worker"
        else task_plan(task, host=host)
        for task, host in PLACES.items()
    )
    return Plan("test", ClusterSpec({}), tasks, LIMITS, min_workers=least, **changes)  # type: ignore[arg-type]


def up(least: int | None = 2, *, grows: bool = True) -> Replay:
    return Replay(elastic(least, grows=grows)).up()


def at(plan: Plan, task: Task, **changes: object) -> Plan:
    """The plan with one task changed."""
    tasks = tuple(
        replace(entry, **changes) if entry.task == task else entry  # type: ignore[arg-type]
        for entry in plan.tasks
    )
    return replace(plan, tasks=tasks)


def killed(run: Replay, task: Task) -> list[str]:
    """Until it has used its restart."""
    said = run.at(10, Exited(task, -9)) + run.at(11, Tick()) + run.at(11, Started(task, 9))
    return said + run.at(20, Exited(task, -9))


def test_the_run_goes_on_without_a_worker_of_a_lost_host_and_nobody_stops_or_waits() -> None:
    run = up()
    assert run.at(40, LOST) == ["move off c"]
    assert run.at(40, Apply(replace(run.plan, lost=("c",)))) == []
    assert run.phase(W2) is TaskPhase.DROPPED
    assert run.at(41, Exited(W1, -9), Tick()) == ["start worker:1/2"]
    run.at(41, Started(W1, 9))
    assert run.at(50, Exited(W0, 0), Exited(W1, 0)) == ["TERM ps:0"]
    assert run.outcome.ok


def test_it_ends_where_too_few_would_be_left() -> None:
    run = up(3)
    assert run.at(40, LOST) == ["move off c"]
    move = Move(("c",), Outcome(False, 1, "host c is lost", cause=W2), vital=True)
    run.at(40, NotMoved(move, "no spare slot is left"))
    assert run.outcome.text == "host c is lost; no spare slot is left"


def test_a_worker_comes_back_when_there_is_a_place_again() -> None:
    run = up()
    lost = replace(run.plan, lost=("c",))
    run.at(40, LOST, Apply(lost))
    assert run.at(60, Apply(at(lost, W2, host="d"))) == ["start worker:2/2"]
    assert run.phase(W2) is TaskPhase.STARTING


def test_a_run_starts_without_the_workers_of_a_missing_host() -> None:
    run = Replay(elastic(lost=("c",)))
    run.up()
    assert run.phase(W2) is TaskPhase.DROPPED
    assert run.state.lost == ("c",)
    assert run.state.attempts == {PS: 1, W0: 1, W1: 1}


@pytest.mark.parametrize(
    ("code", "how"),
    [
        (1, "worker:2 exited with code 1 and is not started again; the run goes on without it"),
        (127, "another attempt would fail alike; the run goes on without it, with 2 workers"),
    ],
)
def test_the_run_goes_on_without_a_worker_that_fails_for_good(code: int, how: str) -> None:
    run = up()
    assert run.at(10, Exited(W2, code)) == []
    assert run.phase(W2) is TaskPhase.DROPPED
    assert how in run.state.notes[-1]
    assert run.at(20, Exited(W1, 1)) == ["TERM ps:0", "TERM worker:0"]


def test_the_run_goes_on_without_a_worker_that_has_used_its_restarts() -> None:
    run = up()
    assert killed(run, W2) == ["start worker:2/2"]
    assert run.phase(W2) is TaskPhase.DROPPED
    assert "worker:2 had used its 1 restart within 600 s" in run.state.notes[-1]
    assert run.at(30, Restart(W2)) == ["start worker:2/3"]


@pytest.mark.parametrize("task", [W0, PS])
def test_the_first_worker_and_the_ps_are_needed(task: Task) -> None:
    run = up(1)
    run.at(10, *(Exited(task, 127),))
    assert run.state.phase is RunPhase.STOPPING


def test_all_are_needed_without_a_least_number() -> None:
    run = up(None)
    run.at(10, Exited(W2, 1))
    assert run.state.phase is RunPhase.STOPPING


def test_a_graph_that_knows_all_workers_is_made_anew_without_the_one_that_failed() -> None:
    run = up(grows=False)
    run.state, actions = transition(run.state, Exited(W1, 127), 10)
    (move,) = (each for each in actions if isinstance(each, Move))
    assert (move.lost, move.absent, move.vital) == ((), (W1,), True)
    assert move.otherwise.cause == W1
    fewer = tuple(
        replace(entry, env={"CLUSTER": "fewer"}, host="c" if entry.task == W1 else entry.host)
        if entry.task.job == "worker"
        else entry
        for entry in run.plan.tasks
        if entry.task != W2
    )
    assert run.at(10, Apply(replace(run.plan, tasks=fewer))) == ["USR2 worker:0", "USR2 worker:2"]
    assert run.phase(W1) is TaskPhase.WAITING
    assert run.at(11, Exited(W2, 0)) == []
    assert run.at(12, Exited(W0, 0)) == ["start worker:0/2", "start worker:1/2"]
    assert W2 not in run.state.tasks


def test_a_worker_whose_restarts_are_used_up_stays_behind_on_a_lost_host() -> None:
    run = up(1)
    once: TaskPlan = replace(run.plan[W2], restart=replace(ONCE, when="never"))
    run = Replay(at(run.plan, W2, restart=once.restart)).up()
    run.state, actions = transition(run.state, LOST, 40)
    (move,) = (each for each in actions if isinstance(each, Move))
    assert move.absent == (W2,)


def test_what_has_failed_for_good_counts_when_a_host_is_lost() -> None:
    run = up(1)
    run.at(10, Exited(W1, 1))
    run.state, actions = transition(run.state, LOST, 40)
    (move,) = (each for each in actions if isinstance(each, Move))
    assert move.absent == (W1,)
    run.at(40, Apply(replace(run.plan, lost=("c",))))
    assert run.at(50, Exited(W0, 0)) == ["TERM ps:0"]


def test_a_host_that_was_lost_joins_again_and_its_worker_with_it() -> None:
    run = up()
    run.at(40, LOST, Apply(replace(run.plan, lost=("c",))))
    assert run.at(60, Apply(run.plan, joined=("c",))) == ["start worker:2/2"]
    assert run.state.lost == ()
    run.at(61, Started(W2, 9))
    assert run.at(90, LOST) == ["move off c"]


def test_one_that_joined_and_failed_before_its_first_step_is_not_missed() -> None:
    run = Replay(at_most(elastic(None), W1)).up()
    assert run.at(5, Apply(run.plan)) == []
    assert run.at(10, Apply(elastic(None))) == ["start worker:2/1"]
    run.at(11, Started(W2, 9), Stepped(), Stepped(W0))
    assert run.at(12, Exited(W2, 1)) == []
    assert run.phase(W2) is TaskPhase.DROPPED
    assert run.at(13, Restart(W2)) == ["start worker:2/2"]
    run.at(14, Started(W2, 9), Stepped(W2))
    run.at(15, Exited(W2, 1))
    assert run.state.phase is RunPhase.STOPPING


def at_most(plan: Plan, last: Task) -> Plan:
    """Without the workers after `last`."""
    return replace(plan, tasks=tuple(entry for entry in plan.tasks if entry.task <= last))


def test_why_says_what_became_of_those_that_are_missing() -> None:
    run = up(1)
    run.at(10, Exited(W1, 1))
    run.at(40, LOST, Apply(replace(run.plan, lost=("c",))))
    found = {each.task: each.does for each in explain(Evidence(run.state, 41.0))}
    assert found["worker:1"] == "exited with code 1; the run goes on without it"
    assert found["worker:2"] == "host c is lost; the run goes on without it"
