"""A host that is about to go, or is wanted back, by replaying histories: its tasks leave it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from histories import PS, W0, W1, Replay, task_plan
from test_fewer_workers import W2, at, elastic, up

from psclust.plan.task_plan import Plan
from psclust.spec.cluster import Task
from psclust.supervise.events import (
    Apply,
    Event,
    Exited,
    HostLeaves,
    HostLost,
    Move,
    NotMoved,
    Reported,
    Serving,
    Stage,
    Started,
    Tick,
)
from psclust.supervise.explain import Evidence, explain
from psclust.supervise.host_loss import hosts_back
from psclust.supervise.run_state import RunPhase, TaskPhase
from psclust.supervise.state_machine import transition

LEAVES = HostLeaves("c", "it got SIGTERM", goes=True)
WANTED = HostLeaves("c", "Slurm drains it", goes=False)


def without(plan: Plan, task: Task, host: str = "d") -> Plan:
    """The plan with one task of c on another host."""
    return replace(at(plan, task, host=host), lost=("c",))


def move_of(run: Replay, event: Event, now: float) -> Move:
    run.state, actions = transition(run.state, event, now)
    (move,) = (each for each in actions if isinstance(each, Move))
    return move


def test_a_worker_leaves_the_host_and_its_successor_starts_elsewhere_while_nobody_else_stops() -> (
    None
):
    run = up(None)
    assert run.at(40, LEAVES) == ["move off c"]
    assert run.at(40, Apply(without(run.plan, W2))) == ["USR2 worker:2"]
    assert run.at(42, Exited(W2, 0)) == ["start worker:2/2"]
    assert (run.state.lost, run.state.leaving) == ((), ("c",))
    run.at(43, Started(W2, 9))
    assert run.at(44, HostLost("c", "it got SIGTERM")) == []
    assert (run.state.lost, run.state.leaving) == (("c",), ())
    assert not any("lost" in note for note in run.state.notes)


def test_a_host_that_was_left_is_taken_back_and_may_be_left_again() -> None:
    run = up(None)
    first, second = run.plan, without(run.plan, W2)
    run.at(40, WANTED)
    assert hosts_back(run.state, first) == []  # no plan has left it yet
    run.at(40, Apply(second))
    assert hosts_back(run.state, second) == []
    assert hosts_back(run.state, first) == ["c"]
    run.at(42, Exited(W2, 0))
    run.at(43, Started(W2, 9))
    run.at(60, Apply(first, joined=("c",)))
    assert run.state.given_up == ()
    assert run.at(70, WANTED) == ["move off c"]


def test_it_is_said_once_whatever_comes_again() -> None:
    run = up(None)
    run.at(40, LEAVES, Apply(without(run.plan, W2)))
    assert run.at(41, LEAVES) == []


def test_a_worker_without_another_place_leaves_too_where_the_run_can_do_without() -> None:
    run = up(2)
    assert run.at(40, LEAVES) == ["move off c"]
    assert run.at(40, Apply(replace(run.plan, lost=("c",)))) == ["USR2 worker:2"]
    assert run.at(41, Exited(W2, 0)) == []
    assert run.phase(W2) is TaskPhase.DROPPED
    found = {each.task: each.does for each in explain(Evidence(run.state, 42.0))}
    assert found["worker:2"] == "host c was to be left; the run goes on without it"
    assert run.at(44, HostLost("c", "it got SIGTERM")) == []
    assert run.at(50, Exited(W0, 0), Exited(W1, 0)) == ["TERM ps:0"]


def test_one_that_dies_as_it_was_to_leave_starts_elsewhere_all_the_same() -> None:
    run = up(None)
    run.at(40, LEAVES, Apply(without(run.plan, W2)))
    assert run.at(41, HostLost("c", "it got SIGTERM")) == []
    assert run.phase(W2) is TaskPhase.WAITING
    assert run.at(60, Tick()) == ["start worker:2/2"]


def test_a_ps_leaves_once_the_programs_have_saved() -> None:
    plan = elastic(None)
    plan = at(at(plan, PS, host="c"), W2, host="b")
    run = Replay(plan).up()
    assert run.at(40, LEAVES) == ["move off c"]
    moved = without(plan, PS)
    assert run.at(40, Apply(moved, save=True)) == [
        "USR1 worker:0",
        "USR1 worker:1",
        "USR1 worker:2",
    ]
    assert run.at(42, *(Exited(task, 0) for task in (W0, W1))) == []
    assert run.at(43, Exited(W2, 0)) == ["TERM ps:0"]
    assert run.at(44, Exited(PS, -15)) == ["start ps:0/2"]
    run.at(45, HostLost("c", "it got SIGTERM"), Started(PS, 9))
    assert run.at(46, Serving(PS)) == ["start worker:0/2", "start worker:1/2", "start worker:2/2"]


def test_the_programs_save_where_there_is_no_place_and_the_host_goes() -> None:
    run = up(None)
    move = move_of(run, LEAVES, 40)
    assert (move.lost, move.vital) == (("c",), True)
    said = run.at(40, NotMoved(move, "there is no spare slot on another host"))
    assert said == ["USR1 worker:0", "USR1 worker:1", "USR1 worker:2"]
    assert run.outcome.text == (
        "host c is to be left, with worker:2: it got SIGTERM; "
        "there is no spare slot on another host"
    )
    assert run.state.phase is RunPhase.STOPPING


def test_nothing_changes_where_there_is_no_place_and_the_host_stays() -> None:
    run = up(None)
    move = move_of(run, WANTED, 40)
    assert run.at(40, NotMoved(move, "there is no spare slot on another host")) == []
    assert run.state.notes[-1].endswith(
        "no spare slot on another host; they stay as long as it does"
    )
    assert run.state.leaving == ()


def test_a_host_that_is_lost_meanwhile_is_planned_without_the_one_to_be_left() -> None:
    run = up(None)
    run.at(40, WANTED, Apply(without(run.plan, W2)))
    assert run.at(41, HostLost("b", "no contact")) == ["move off b, c"]


@pytest.fixture
def trained() -> Replay:
    """The last program, on a, evaluates; ps:0 is on c."""
    run = Replay(at(at(elastic(None), PS, host="c"), W2, host="b")).up()
    run.at(30, Reported(W0, Stage.TRAINED), Exited(W1, 0), Exited(W2, 0))
    return run


def test_servers_that_no_program_needs_any_more_end_so_that_the_host_can_go(
    trained: Replay,
) -> None:
    assert trained.at(40, LEAVES) == ["TERM ps:0"]
    assert trained.state.notes[-1] == (
        "host c is to be left, with ps:0: it got SIGTERM; "
        "the training is over, and the run goes on without"
    )
    assert trained.at(41, Exited(PS, -15), HostLost("c", "it got SIGTERM")) == []
    assert trained.at(50, Exited(W0, 0)) == ["end 0"]
    assert trained.outcome.ok


def test_of_such_servers_one_that_was_to_start_does_not() -> None:
    run = Replay(at(at(elastic(None), PS, host="c"), W2, host="b")).up()
    run.at(30, Exited(PS, -9), Reported(W0, Stage.TRAINED), Exited(W1, 0), Exited(W2, 0))
    assert run.phase(PS) is TaskPhase.BACKOFF
    assert run.at(30, LEAVES) == []
    assert run.phase(PS) is TaskPhase.STOPPED
    assert run.at(50, Exited(W0, 0)) == ["end 0"]


def test_a_program_that_starts_again_has_such_servers_move(trained: Replay) -> None:
    trained.at(40, LEAVES, Exited(PS, -15))
    assert trained.at(41, Exited(W0, -9)) == ["move off c"]


def test_a_host_that_is_only_wanted_back_keeps_them(trained: Replay) -> None:
    assert trained.at(40, WANTED) == []


def test_a_program_that_evaluates_has_the_time_that_its_host_has(trained: Replay) -> None:
    host = trained.state.tasks[W0].plan.host
    assert trained.at(40, HostLeaves(host, "it got SIGTERM", goes=True)) == []


@pytest.mark.parametrize("event", [HostLeaves("x", "it got SIGTERM", goes=True), LEAVES])
def test_nothing_follows_where_nothing_needs_the_host(event: HostLeaves) -> None:
    side = task_plan(Task("evaluator", 0), host="c")
    plan = elastic(None)
    run = Replay(replace(at(plan, W2, host="b"), tasks=(*at(plan, W2, host="b").tasks, side))).up()
    assert run.at(40, event) == []
    assert run.state.leaving == ()
