"""A lost host, by replaying histories: its tasks move if they may, and all start again; else the
run ends with its name."""

from __future__ import annotations

from dataclasses import replace

import pytest
from histories import EVAL, LIMITS, PS, W0, W1, Replay, live, task_plan

from psclust.plan.task_plan import Plan, RestartPolicy, TaskPlan
from psclust.spec.cluster import Task
from psclust.supervise.events import (
    Apply,
    Event,
    Exited,
    HostLost,
    HostSilent,
    Move,
    Note,
    NotMoved,
    Outcome,
    Reported,
    Restart,
    Serving,
    Stage,
    Started,
    Stop,
    Tick,
)
from psclust.supervise.run_state import TaskPhase

LOST = HostLost("b", "its agent has not answered for 31 s")
TEXT = "host b is lost, with worker:1: its agent has not answered for 31 s"


def on(host: str, task: Task, **changes: object) -> TaskPlan:
    return task_plan(task, host=host, **changes)


def moved(plan: Plan, task: Task, host: str, lost: tuple[str, ...]) -> Plan:
    """`plan` with the task elsewhere, which every task is told of."""
    tasks = tuple(
        replace(entry, host=host if entry.task == task else entry.host, env={"CLUSTER": f"{lost}"})
        for entry in plan.tasks
    )
    return replace(plan, tasks=tasks, lost=lost)


@pytest.fixture
def run() -> Replay:
    """ps:0 and worker:0 on a, worker:1 on b."""
    return live(on("a", PS), on("a", W0), on("b", W1))


def refused(run: Replay, *, vital: bool = True) -> Event:
    return NotMoved(
        Move(("b",), Outcome(False, 1, TEXT, cause=W1), vital=vital), "no spare slot is left"
    )


def test_the_tasks_of_a_lost_host_move_and_all_start_again_once_all_have_ended(run: Replay) -> None:
    assert run.at(40, LOST) == ["move off b"]
    assert run.at(40, Apply(moved(run.plan, W1, "c", ("b",)))) == ["TERM ps:0", "TERM worker:0"]
    assert run.at(41, Exited(PS, -15)) == []
    assert run.at(50, Tick()) == ["KILL worker:0"]
    assert run.at(51, Exited(W0, -9)) == ["start ps:0/2"]
    run.at(51.1, Started(PS, 7))
    assert run.at(51.2, Serving(PS)) == ["start worker:0/2", "start worker:1/2"]
    assert run.state.tasks[W1].plan.host == "c"
    assert run.state.outcome is None


def test_nothing_starts_before_the_agent_of_the_lost_host_must_have_ended_its_tasks(
    run: Replay,
) -> None:
    run.at(40, LOST, Apply(moved(run.plan, W1, "c", ("b",))))
    assert run.at(40.5, Exited(PS, -15), Exited(W0, -15)) == []
    assert run.at(40 + LIMITS.lost_s - 0.1, Tick()) == []
    assert run.at(40 + LIMITS.lost_s, Tick()) == ["start ps:0/2"]


def test_without_any_grace_too_nobody_starts_before_there_is_a_plan_and_all_have_ended() -> None:
    at_once = RestartPolicy("signal", 3, 600, 0, 0)
    entries = (on("a", PS), on("a", W0), on("b", W1, restart=at_once))
    run = live(*entries, deadlines=replace(LIMITS, lost_s=0))
    run.at(39, Exited(W0, -9))
    assert run.at(40, LOST, Tick()) == ["move off b"]
    assert run.at(41, Tick()) == []
    assert run.at(42, Apply(moved(run.plan, W1, "c", ("b",)))) == ["TERM ps:0"]
    assert run.at(42, Exited(PS, -15)) == ["start ps:0/2"]


def test_a_long_wait_for_the_old_tasks_is_none_of_the_start_deadlines_business() -> None:
    run = live(on("a", PS), on("b", W1), deadlines=replace(LIMITS, start_s=5, lost_s=10))
    run.at(40, LOST, Apply(moved(run.plan, W1, "c", ("b",))), Exited(PS, -15))
    assert run.at(49.9, Tick()) == []
    assert run.at(50, Tick()) == ["start ps:0/2"]
    assert run.at(54.9, Tick()) == []
    run.at(55, Tick())
    assert run.outcome.text == "ps:0 did not answer within 5 s (deadlines.start)"


def test_what_has_ended_well_starts_again_too_because_the_others_may_need_it(run: Replay) -> None:
    run.at(10, Exited(W0, 0))
    run.at(40, LOST, Apply(moved(run.plan, W1, "c", ("b",))), Exited(PS, -15))
    run.at(50, Tick(), Started(PS, 7))
    assert run.at(51, Serving(PS)) == ["start worker:0/2", "start worker:1/2"]


def test_without_another_place_the_run_ends_with_the_hosts_name_and_nobody_waits_for_its_tasks(
    run: Replay,
) -> None:
    run.at(40, LOST)
    assert run.at(40, refused(run)) == ["TERM ps:0", "TERM worker:0"]
    assert run.phase(W1) is TaskPhase.FAILED
    assert run.at(41, Exited(PS, -15), Exited(W0, -15)) == ["end 1"]
    assert run.outcome.text == f"{TEXT}; no spare slot is left"
    assert run.outcome.cause == W1


def test_a_move_counts_as_a_restart_of_the_tasks_that_move_and_of_no_others(run: Replay) -> None:
    plan = run.plan
    for count, host in enumerate(("b", "c", "d"), 1):
        assert run.at(100 * count, HostLost(host, "silent"))[0].startswith("move off b")
        plan = moved(plan, W1, chr(ord(host) + 1), run.state.lost)
        run.at(100 * count, Apply(plan))
        run.at(100 * count + 1, Exited(PS, -15), Exited(W0, -15))
        run.at(
            100 * count + 50, Tick(), Started(PS, 7), Serving(PS), Started(W0, 8), Started(W1, 9)
        )
    assert run.state.tasks[W0].restarts == ()
    assert run.at(400, HostLost("e", "silent")) == ["TERM ps:0", "TERM worker:0"]
    assert (
        run.outcome.text
        == "host e is lost, with worker:1: silent; worker:1 had used its 3 restarts within 600 s"
    )


@pytest.mark.parametrize("task", [W0, W1])
def test_a_task_that_is_to_be_started_once_only_keeps_all_where_they_are(task: Task) -> None:
    once = {task: RestartPolicy("never", 3, 600, 1, 30)}
    entries = [on("a", PS), on("a", W0), on("b", W1)]
    run = live(*(replace(entry, restart=once.get(entry.task, entry.restart)) for entry in entries))
    assert run.at(40, LOST) == ["TERM ps:0", "TERM worker:0"]
    assert (
        run.outcome.text == f"{TEXT}; to move them would start all tasks again, "
        f"and {task} is to be started once only (restart: when: never)"
    )


def test_a_task_that_waits_for_its_next_start_on_the_lost_host_moves_too(run: Replay) -> None:
    run.at(39.9, Exited(W1, -9))
    assert run.phase(W1) is TaskPhase.BACKOFF
    assert run.at(40, LOST) == ["move off b"]
    assert run.at(42, Tick()) == []


def test_a_second_host_is_lost_while_the_tasks_of_the_first_are_about_to_start_there(
    run: Replay,
) -> None:
    first = moved(run.plan, W1, "c", ("b",))
    run.at(40, LOST, Apply(first))
    assert run.at(44, HostLost("c", "silent")) == ["move off b, c"]
    run.at(44, Apply(moved(first, W1, "d", ("b", "c"))))
    assert run.at(45, Exited(PS, -15), Exited(W0, -15)) == []
    assert run.at(50, Tick()) == []
    assert run.at(54, Tick()) == ["start ps:0/2"]
    assert run.state.tasks[W1].plan.host == "d"


def test_a_lost_host_without_a_task_is_remembered(run: Replay) -> None:
    assert run.at(30, HostLost("c", "silent")) == []
    assert run.at(40, LOST) == ["move off c, b"]


def test_a_lost_host_on_which_all_have_ended_changes_nothing(run: Replay) -> None:
    run.at(10, Exited(W1, 0))
    assert run.at(40, LOST) == []
    assert run.phase(W1) is TaskPhase.DONE
    assert run.at(50, Exited(W0, 0)) == ["TERM ps:0"]


def test_a_program_that_had_ended_well_and_served_on_is_done(run: Replay) -> None:
    run.at(10, Reported(W1, Stage.FINISHED))
    assert run.at(40, LOST) == []
    assert (run.phase(W1), run.state.tasks[W1].exit_code) == (TaskPhase.DONE, 0)


def test_what_a_lost_host_still_says_is_of_no_account(run: Replay) -> None:
    run.at(40, LOST)
    before = run.state
    assert run.at(41, Exited(W1, 0), Started(W1, 9), Restart(W1)) == []
    assert run.state == before


def test_a_host_that_is_lost_while_the_run_is_being_stopped_holds_nothing_up() -> None:
    run = live(on("a", PS), on("b", W0))
    assert run.at(5, Stop("enough", ok=True, exit_code=0)) == ["TERM ps:0", "TERM worker:0"]
    assert run.at(6, Exited(PS, -15)) == []
    assert run.at(40, LOST) == ["end 0"]


def test_a_host_that_is_lost_when_the_work_is_done_does_not_spoil_it() -> None:
    run = live(on("a", PS), on("a", W0), on("b", W1, decides=False))
    run.at(39, Exited(W0, 0))
    assert run.at(40, LOST) == ["TERM ps:0"]
    assert run.outcome.ok


def test_a_lost_host_that_only_looked_on_ends_no_run_and_its_tasks_move_if_there_is_room() -> None:
    run = live(on("a", PS), on("a", W0), on("b", EVAL))
    assert run.at(40, LOST) == ["move off b"]
    assert run.at(40, refused(run, vital=False)) == []
    assert run.phase(EVAL) is TaskPhase.FAILED
    assert run.at(50, Exited(W0, 0)) == ["TERM ps:0"]


def test_who_only_looks_on_is_left_behind_where_there_is_room_for_the_others_alone() -> None:
    run = live(on("a", PS), on("b", W1), on("b", EVAL))
    run.at(40, LOST, Apply(moved(run.plan, W1, "c", ("b",))))
    assert run.phase(EVAL) is TaskPhase.FAILED
    run.at(41, Exited(PS, -15))
    run.at(50, Tick(), Started(PS, 7))
    assert run.at(51, Serving(PS)) == ["start worker:1/2"]
    assert run.at(60, Exited(W1, 0)) == ["TERM ps:0"]


def test_a_program_that_fails_while_a_host_is_silent_is_started_again_because_that_may_be_why(
    run: Replay,
) -> None:
    run.at(40, HostSilent("b"))
    assert run.at(40.5, Exited(W0, 1)) == []
    assert run.phase(W0) is TaskPhase.BACKOFF
    assert run.at(43, Tick()) == ["start worker:0/2"]
    assert run.at(70, LOST) == ["move off b"]


def test_once_the_host_is_heard_again_a_failure_is_a_failure(run: Replay) -> None:
    run.at(40, HostSilent("b"), HostSilent("b", silent=False))
    assert run.at(40.5, Exited(W0, 1)) == ["TERM ps:0", "TERM worker:1"]


def test_the_silence_of_a_host_without_tasks_explains_nothing(run: Replay) -> None:
    run.at(40, HostSilent("c"))
    assert run.at(40.5, Exited(W0, 1)) == ["TERM ps:0", "TERM worker:1"]


@pytest.fixture
def trained() -> Replay:
    """worker:0, the chief on a, evaluates; ps:0 and worker:1 are on b."""
    run = live(on("b", PS), on("a", W0), on("b", W1))
    assert run.at(30, Reported(W0, Stage.TRAINED)) == []
    return run


@pytest.mark.parametrize("end", [Reported(W1, Stage.LEAVING), Exited(W1, 0)])
def test_servers_that_no_program_needs_any_more_are_not_missed(trained: Replay, end: Event) -> None:
    trained.at(39, end)
    assert trained.at(40, LOST) == []
    assert trained.state.notes == (
        (
            "host b is lost, with ps:0: its agent has not answered for 31 s; "
            "the training is over, and the run goes on without"
        ),
    )
    assert (trained.phase(PS), trained.phase(W1)) == (TaskPhase.STOPPED, TaskPhase.DONE)
    assert trained.at(50, Exited(W0, 0)) == ["end 0"]
    assert trained.outcome.ok


def test_while_another_program_trains_servers_are_needed(trained: Replay) -> None:
    assert trained.at(40, LOST) == ["move off b"]


def test_the_chief_itself_is_missed_while_it_evaluates(trained: Replay) -> None:
    trained.at(39, Reported(W1, Stage.LEAVING))
    assert trained.at(40, HostLost("a", "silent")) == ["move off a"]


def test_a_program_that_starts_again_needs_the_servers_after_all(trained: Replay) -> None:
    trained.at(39, Exited(W1, 0))
    assert trained.at(40, LOST) == []
    assert trained.at(41, Exited(W0, -9)) == ["move off b"]
    elsewhere = moved(moved(trained.plan, PS, "c", ("b",)), W1, "c", ("b",))
    assert trained.at(41, Apply(elsewhere)) == []
    assert trained.at(52, Tick()) == ["start ps:0/2"]


def test_who_looks_on_may_start_again_without(trained: Replay) -> None:
    side = live(on("b", PS), on("a", W0), on("a", EVAL))
    side.at(30, Reported(W0, Stage.TRAINED))
    assert side.at(40, LOST) == []
    assert side.at(41, Exited(EVAL, 1), Tick()) == []
    assert side.state.tasks[EVAL].pending


def test_a_reason_that_is_here_ends_the_run_with_it_alone(run: Replay) -> None:
    assert run.at(40, HostLost("b", "the supervisor slept", all_hosts=True)) == [
        "TERM ps:0",
        "TERM worker:0",
    ]
    assert run.outcome == Outcome(False, 1, "the supervisor slept")
    assert run.at(40, HostLost("a", "the supervisor slept", all_hosts=True)) == ["end 1"]


def test_a_note_is_kept_once(run: Replay) -> None:
    run.at(5, Note("no room"), Note("no room"), Note("no time"))
    assert run.state.notes == ("no room", "no time")
