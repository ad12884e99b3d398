"""What follows the death of a ps or a worker by `on_ps_failure` and `on_worker_failure`, by
replaying histories."""

from __future__ import annotations

from dataclasses import replace

import pytest
from histories import CHIEF, EVAL, LIMITS, PS, W0, W1, Replay, make_plan, task_plan, word

from psclust.plan.task_plan import RestartPolicy, TaskPlan
from psclust.spec.cluster import Task
from psclust.supervise.event_records import event_records
from psclust.supervise.events import (
    Apply,
    Exited,
    HostLost,
    Move,
    NotMoved,
    Outcome,
    Reported,
    Restart,
    Serving,
    Stage,
    Started,
    Tick,
)
from psclust.supervise.explain import Evidence, explain
from psclust.supervise.run_state import RunPhase, TaskPhase
from psclust.supervise.state_machine import transition
from psclust.supervise.stragglers import describe_wait

KILLED = (
    "was killed by SIGKILL (if it was not sent on purpose, the machine may have been out of memory)"
)
ALL_AGAIN = f"ps:0 {KILLED}; all tasks start again (on_ps_failure: restart-all)"
WITH_PS = "all tasks start again with ps:0 (on_ps_failure: restart-all)"
LOST = HostLost("b", "no contact for 31 s")
HELPER = Task("helper", 0)  # outside of the cluster


def ruled(*tasks: TaskPlan, ps: str = "restart-all", worker: str = "restart-all") -> Replay:
    """A run of these tasks, by default a ps and two workers, that is up under the two rules."""
    plan = make_plan(*(tasks or (task_plan(PS), task_plan(W0), task_plan(W1))))
    return Replay(replace(plan, on_ps_failure=ps, on_worker_failure=worker)).up()  # type: ignore[arg-type]


def come_up(run: Replay, now: float) -> None:
    """Every task that has been asked for."""
    run.at(now, Started(PS, 201), Serving(PS), *(Started(task, 202) for task in (W0, W1)))


def restart_all(run: Replay, now: float) -> list[str]:
    """ps:0 dies and every task starts again; the starts before the ps answers."""
    assert run.at(now, Exited(PS, -9)) == ["TERM worker:0", "TERM worker:1"]
    run.at(now + 0.1, Exited(W0, -15), Exited(W1, -15))
    return run.at(now + 50, Tick())


def test_all_tasks_are_stopped_and_start_together_in_new_attempts() -> None:
    run = ruled()
    assert run.at(5, Exited(PS, -9)) == ["TERM worker:0", "TERM worker:1"]
    assert run.at(5.1, Tick()) == []
    assert run.at(5.2, Exited(W0, -15)) == []
    assert run.at(5.3, Exited(W1, -15)) == ["start ps:0/2"]
    assert run.at(5.4, Started(PS, 7)) == []
    assert run.at(5.5, Serving(PS)) == ["start worker:0/2", "start worker:1/2"]
    assert run.state.notes == (ALL_AGAIN,)
    assert [len(entry.restarts) for entry in run.state.tasks.values()] == [1, 0, 0]


def test_a_dead_worker_takes_the_ps_with_it() -> None:
    run = ruled(ps="restart-ps")
    assert run.at(5, Exited(W1, -9)) == ["TERM ps:0", "TERM worker:0"]
    assert run.at(6, Exited(PS, -15), Exited(W0, -15), Tick()) == ["start ps:0/2"]
    assert run.state.notes == (
        f"worker:1 {KILLED}; all tasks start again (on_worker_failure: restart-all)",
    )


def test_a_task_that_ignores_term_is_killed_and_waited_for() -> None:
    run = ruled()
    run.at(5, Exited(PS, -9), Exited(W0, -15))
    assert run.at(5 + LIMITS.stop_s, Tick()) == ["KILL worker:1"]
    assert run.at(16, Exited(W1, -9)) == ["start ps:0/2"]


def test_without_a_tick_too_the_task_that_died_starts_with_the_others() -> None:
    second = Task("ps", 1)
    run = ruled(task_plan(PS), task_plan(second), task_plan(W0))
    run.at(5, Exited(PS, -9))
    assert run.at(5, Exited(second, -15), Exited(W0, -15)) == []
    assert run.at(5, Tick()) == ["start ps:0/2", "start ps:1/2"]


def test_several_deaths_at_once_are_one_restart() -> None:
    second = Task("ps", 1)
    run = ruled(task_plan(PS), task_plan(second), task_plan(W0))
    run.at(5, Exited(PS, -9), Exited(second, -9), Exited(W0, 1))
    assert run.at(5.1, Tick()) == ["start ps:0/2", "start ps:1/2"]
    assert [len(entry.restarts) for entry in run.state.tasks.values()] == [1, 0, 0]
    assert len(run.state.deaths) == 1


def test_a_death_while_the_others_still_wait_for_the_new_servers_is_another_restart() -> None:
    run = ruled()
    assert restart_all(run, 5) == ["start ps:0/2"]
    run.at(56, Started(PS, 7), Serving(PS), Started(W0, 8))
    assert run.at(57, Exited(PS, -9)) == ["TERM worker:0", "TERM worker:1"]
    assert len(run.state.tasks[PS].restarts) == 2
    assert run.state.notes[1].startswith("attempt 2 of ps:0 was killed")


def test_the_back_off_of_the_task_that_died_holds_up_all() -> None:
    run = ruled()
    assert restart_all(run, 5) == ["start ps:0/2"]
    come_up(run, 56)
    run.at(60, Exited(PS, -9), Exited(W0, -15), Exited(W1, -15))
    assert run.phase(W0) is TaskPhase.WAITING
    assert run.at(60.9, Tick()) == []
    assert run.at(61.3, Tick()) == ["start ps:0/3"]


def test_a_worker_that_waits_for_its_own_back_off_starts_with_the_others() -> None:
    run = ruled(worker="restart-worker")
    run.at(5, Exited(W1, -9), Tick(), Started(W1, 9))
    run.at(6, Exited(W1, -9))
    assert run.at(6.1, Exited(PS, -9)) == ["TERM worker:0"]
    assert run.at(6.2, Exited(W0, -15), Tick()) == []
    assert run.at(7.3, Tick()) == ["start ps:0/2"]
    assert run.at(7.4, Started(PS, 7), Serving(PS)) == ["start worker:0/2", "start worker:1/3"]


def test_the_limit_of_the_task_that_dies_ends_the_run() -> None:
    run = ruled()
    for now in (100, 200, 300):
        restart_all(run, now)
        come_up(run, now + 60)
    assert run.at(400, Exited(PS, -9)) == ["TERM worker:0", "TERM worker:1"]
    assert run.outcome == Outcome(
        False,
        1,
        f"ps:0 {KILLED}; ps:0 had used its 3 restarts within 600 s",
        cause=PS,
        attempt=4,
    )


def test_a_failure_that_restart_does_not_allow_ends_the_run_as_ever() -> None:
    run = ruled()
    run.at(5, Exited(W0, 3))
    assert run.outcome.text == "worker:0 exited with code 3"


def test_a_worker_that_had_ended_well_starts_again_because_the_others_may_need_it() -> None:
    run = ruled()
    run.at(4, Reported(W1, Stage.FINISHED), Exited(W1, 0))
    assert run.phase(W1) is TaskPhase.DONE
    assert run.at(5, Exited(PS, -9)) == ["TERM worker:0"]
    run.at(6, Exited(W0, -15), Tick(), Started(PS, 7))
    assert run.at(6.1, Serving(PS)) == ["start worker:0/2", "start worker:1/2"]
    run.at(7, Started(W0, 8), Started(W1, 9), Exited(W0, 0))
    assert run.state.phase is RunPhase.LIVE
    assert run.at(8, Exited(W1, 0)) == ["TERM ps:0"]


def test_beside_the_cluster_only_programs_at_work_start_again() -> None:
    outside = task_plan(HELPER, address=None, decides=False)
    observer = task_plan(EVAL, address=None)
    run = ruled(task_plan(PS), task_plan(W0), outside, observer)
    assert run.at(5, Exited(PS, -9)) == ["TERM worker:0", "TERM helper:0"]
    run.at(6, Exited(W0, -15), Exited(HELPER, -15), Tick(), Started(PS, 7), Serving(PS))
    run.at(7, Started(W0, 8), Started(HELPER, 9), Exited(HELPER, 0))
    assert run.at(30, Exited(PS, -9)) == ["TERM worker:0"]
    assert (run.phase(HELPER), run.state.tasks[EVAL].attempt) == (TaskPhase.DONE, 1)


def test_an_observer_that_dies_starts_again_alone() -> None:
    run = ruled(task_plan(PS), task_plan(W0), task_plan(EVAL, address=None))
    assert run.at(5, Exited(EVAL, 1)) == []
    assert run.at(5, Tick()) == ["start evaluator:0/2"]


def test_once_the_work_is_done_a_dead_ps_starts_again_alone() -> None:
    for done in ((Reported(W0, Stage.LEAVING), Exited(W1, 0)), (Exited(W0, 0),)):
        run = ruled(task_plan(PS), task_plan(W0), task_plan(W1, decides=False), ps="fail")
        run.at(4, *done)
        assert run.at(5, Exited(PS, -9)) == []
        assert run.state.outcome is None


@pytest.mark.parametrize(
    ("ps", "worker", "dead", "said"),
    [
        ("restart-ps", "restart-all", PS, []),
        ("restart-all", "restart-worker", W0, []),
        ("restart-all", "restart-worker", CHIEF, []),
        ("restart-ps", "restart-all", CHIEF, ["TERM ps:0", "TERM worker:0"]),
        ("fail", "restart-worker", PS, ["TERM chief:0", "TERM worker:0"]),
        ("fail", "restart-worker", W0, []),
        ("restart-ps", "fail", W0, ["TERM ps:0", "TERM chief:0"]),
    ],
)
def test_each_rule_is_about_its_own_tasks(
    ps: str, worker: str, dead: Task, said: list[str]
) -> None:
    run = ruled(task_plan(PS), task_plan(CHIEF), task_plan(W0), ps=ps, worker=worker)
    assert run.at(5, Exited(dead, -9)) == said


def test_fail_ends_the_run_with_that_death_as_the_first_cause() -> None:
    run = ruled(ps="fail", worker="restart-worker")
    run.at(5, Exited(W1, -9), Tick(), Started(W1, 9))
    run.at(6, Exited(W0, 1))
    run.at(6.1, Exited(PS, -9))
    assert run.outcome == Outcome(
        False, 1, f"ps:0 {KILLED}; on_ps_failure: fail", cause=PS, attempt=1, collateral=(W0,)
    )


def test_what_fails_after_a_kill_elsewhere_is_not_the_first_cause() -> None:
    run = ruled(ps="restart-ps", worker="fail")
    run.at(5, Exited(PS, -9))
    run.at(6, Exited(W0, 1))
    assert (run.outcome.cause, run.outcome.collateral) == (PS, (W0,))
    assert run.outcome.text == (
        f"ps:0 {KILLED}, and worker:0 exited with code 1 after it; on_worker_failure: fail"
    )


def test_a_second_plan_may_change_the_rule() -> None:
    run = ruled()
    run.at(5, Apply(replace(run.plan, on_ps_failure="restart-ps")))
    assert run.at(6, Exited(PS, -9)) == []


def test_a_task_may_be_restarted_by_hand_or_removed_meanwhile() -> None:
    run = ruled()
    run.at(5, Exited(PS, -9))
    assert run.at(5.1, Restart(PS), Restart(W0)) == []
    assert run.at(5.2, Apply(replace(run.plan, tasks=run.plan.tasks[:2]))) == []
    assert run.at(5.3, Exited(W0, -15)) == []
    assert run.at(5.4, Exited(W1, -15)) == ["start ps:0/2"]
    assert W1 not in run.state.tasks


# On hosts


def on_hosts(ps: str, worker: str, **more: str) -> Replay:
    tasks = (task_plan(PS, host="a"), task_plan(W0, host="a"), task_plan(W1, host="b"))
    return ruled(*tasks, ps=ps, worker=worker, **more)


def test_the_tasks_of_a_lost_host_start_elsewhere_together_with_all_others() -> None:
    """Whether or not the move changes their plan."""
    run = on_hosts("restart-ps", "restart-all")
    assert run.at(40, LOST) == ["TERM ps:0", "TERM worker:0", "move off b"]
    moved = (*run.plan.tasks[:2], replace(run.plan.tasks[2], host="c"))
    assert run.at(40, Apply(replace(run.plan, tasks=moved, lost=("b",)))) == []
    assert run.at(41, Exited(PS, -15), Exited(W0, -15)) == []
    assert run.at(50, Tick()) == ["start ps:0/2"]
    assert run.at(51, Started(PS, 7), Serving(PS)) == ["start worker:0/2", "start worker:1/2"]
    assert run.state.notes == (
        "worker:1 was on b, which is lost; all tasks start again (on_worker_failure: restart-all)",
    )


def test_without_the_rule_others_go_on_when_a_task_moves() -> None:
    run = on_hosts("restart-all", "restart-worker")
    assert run.at(40, LOST) == ["move off b"]


def test_fail_holds_for_a_lost_host_too() -> None:
    run = on_hosts("restart-ps", "fail")
    assert run.at(40, LOST) == ["TERM ps:0", "TERM worker:0"]
    assert run.outcome.text == (
        "host b is lost, with worker:1: no contact for 31 s; on_worker_failure: fail"
    )
    assert run.outcome.cause == W1


def test_a_task_that_had_ended_well_on_a_host_that_is_gone_starts_again_elsewhere() -> None:
    run = on_hosts("restart-all", "restart-worker")
    run.at(10, Exited(W1, 0))
    assert run.at(40, LOST) == []
    assert run.at(50, Exited(PS, -9)) == ["TERM worker:0", "move off b"]
    moved = (*run.plan.tasks[:2], replace(run.plan.tasks[2], host="c"))
    run.at(50, Apply(replace(run.plan, tasks=moved, lost=("b",))), Exited(W0, -15))
    assert run.at(60.1, Tick()) == ["start ps:0/2"]
    assert run.at(61, Started(PS, 7), Serving(PS)) == ["start worker:0/2", "start worker:1/2"]


def test_an_observer_that_cannot_move_does_not_let_others_start_early() -> None:
    observer = task_plan(EVAL, host="b", address=None)
    run = ruled(task_plan(PS, host="a"), task_plan(W0, host="a"), observer)
    run.at(40, Exited(PS, -9))
    assert run.at(40.1, LOST) == ["move off b"]
    refusal = NotMoved(Move(("b",), Outcome(False, 1, "lost"), vital=False), "no slot is left")
    assert run.at(40.2, refusal, Tick()) == []
    run.at(41, Exited(W0, -15))
    assert run.at(51, Tick()) == ["start ps:0/2"]


# What is shown


def test_events_say_who_starts_again_and_why() -> None:
    run = ruled()
    after, actions = transition(run.state, Exited(PS, -9), 5)
    found = list(event_records(run.state, Exited(PS, -9), after, actions, 5))
    assert [(each["kind"], each.get("task")) for each in found] == [
        ("exit", "ps:0"),
        ("note", None),
        ("restart", "ps:0"),
        ("restart", "worker:0"),
        ("restart", "worker:1"),
        ("signal", "worker:0"),
        ("signal", "worker:1"),
    ]
    assert {each["reason"] for each in found if each["kind"] == "restart"} == {WITH_PS}
    assert [word(action) for action in actions] == ["TERM worker:0", "TERM worker:1"]


def test_why_and_the_status_name_who_has_to_end_first() -> None:
    run = ruled()
    run.at(5, Exited(PS, -9), Exited(W0, -15))
    assert describe_wait(run.state) == f"{WITH_PS}; waiting for worker:1 to end"
    found = {each.task: each for each in explain(Evidence(run.state, 5.0))}
    assert found["ps:0"].does == f"{KILLED}; starts again in 0 s"
    assert found["worker:0"].does == "waits to be started with all others"
    assert found["worker:0"].waits_for == ("ps:0", "worker:1")
    assert found["worker:1"].does == "is being stopped, to start again with all others"
    run.at(6, Exited(W1, -15), Tick())
    assert describe_wait(run.state) is None


def test_a_task_that_may_start_once_only_is_left_alone() -> None:
    once = task_plan(HELPER, address=None, restart=RestartPolicy("never", 0, 600, 1, 30))
    run = ruled(task_plan(PS), task_plan(W0), once)
    assert run.at(5, Exited(PS, -9)) == ["TERM worker:0"]
