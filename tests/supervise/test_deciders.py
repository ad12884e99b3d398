"""Whose end ends a run, and who is waited for then, by replaying histories."""

from __future__ import annotations

from histories import CHIEF, PS, W0, W1, Replay, make_plan, task_plan

from psclust.spec.cluster import Task
from psclust.supervise.events import (
    Exited,
    Outcome,
    Reported,
    Stage,
    Tick,
)
from psclust.supervise.run_state import RunPhase, TaskPhase


def test_the_chief_decides_and_workers_get_a_grace() -> None:
    run = Replay(
        make_plan(task_plan(PS), task_plan(CHIEF, decides=True), task_plan(W0, decides=False))
    ).up()
    assert run.at(5, Exited(CHIEF, 0)) == []
    assert run.state.phase is RunPhase.FINISHING
    assert run.at(34, Tick()) == []
    assert run.at(35, Tick()) == ["TERM ps:0", "TERM worker:0"]
    run.at(36, Exited(PS, -15))
    assert run.at(36, Exited(W0, -15)) == ["end 0"]
    assert "worker:0 had not ended 30 s after the others" in run.outcome.text


def test_a_worker_that_has_joined_its_server_is_not_waited_for_when_the_chief_is_done() -> None:
    run = Replay(
        make_plan(task_plan(PS), task_plan(CHIEF, decides=True), task_plan(W0, decides=False))
    ).up()
    run.at(2, Reported(W0, Stage.JOINED))
    assert run.at(5, Exited(CHIEF, 0)) == ["TERM ps:0", "TERM worker:0"]


def test_where_only_the_first_worker_works_and_the_others_join_its_end_ends_the_run(
    run: Replay,
) -> None:
    assert run.at(2, Reported(W1, Stage.JOINED)) == []
    assert run.at(5, Exited(W0, 0)) == ["TERM ps:0", "TERM worker:1"]


def test_a_program_that_has_ended_well_may_serve_on_and_counts_as_done(run: Replay) -> None:
    assert run.at(2, Reported(W0, Stage.FINISHED)) == []
    assert run.at(5, Reported(W1, Stage.FINISHED)) == [
        "TERM ps:0",
        "TERM worker:0",
        "TERM worker:1",
    ]
    assert run.at(5.1, Exited(PS, -15), Exited(W0, -15), Exited(W1, -15)) == ["end 0"]
    assert (run.phase(W0), run.state.tasks[W0].exit_code) == (TaskPhase.DONE, 0)


def test_a_program_that_has_ended_well_and_is_killed_while_it_serves_on_stays_done(
    run: Replay,
) -> None:
    run.at(2, Reported(W0, Stage.FINISHED))
    assert run.at(3, Exited(W0, -9)) == []
    assert run.phase(W0) is TaskPhase.DONE


def test_a_run_in_which_all_have_joined_goes_on(run: Replay) -> None:
    assert run.at(2, Reported(W0, Stage.JOINED), Reported(W1, Stage.JOINED)) == []
    assert run.state.phase is RunPhase.LIVE


def test_a_worker_that_fails_after_the_chief_is_done_does_not_spoil_the_run() -> None:
    run = Replay(
        make_plan(task_plan(PS), task_plan(CHIEF, decides=True), task_plan(W0, decides=False))
    ).up()
    run.at(5, Exited(CHIEF, 0))
    assert run.at(6, Exited(W0, 1)) == ["TERM ps:0"]
    assert run.outcome.ok


CONTROLLER = Task("controller", 0)


def test_when_all_workers_serve_another_program_decides() -> None:
    run = Replay(
        make_plan(
            task_plan(CONTROLLER, decides=False, needs=()),
            task_plan(W0, needs=()),
            task_plan(W1, needs=()),
        )
    ).up()
    run.at(5, Reported(W0, Stage.JOINED), Reported(W1, Stage.JOINED))
    assert run.at(6, Exited(CONTROLLER, 0)) == ["TERM worker:0", "TERM worker:1"]
    assert run.outcome == Outcome(True, 0, "done")


def test_workers_that_join_after_the_controller_has_ended_end_the_run() -> None:
    run = Replay(
        make_plan(task_plan(CONTROLLER, decides=False, needs=()), task_plan(W0, needs=()))
    ).up()
    assert run.at(5, Exited(CONTROLLER, 0)) == []
    assert run.at(6, Reported(W0, Stage.JOINED)) == ["TERM worker:0"]


def test_while_a_worker_works_no_controller_decides() -> None:
    run = Replay(
        make_plan(
            task_plan(CONTROLLER, decides=False, needs=()),
            task_plan(W0, needs=()),
            task_plan(W1, needs=()),
        )
    ).up()
    run.at(5, Reported(W1, Stage.JOINED))
    assert run.at(6, Exited(CONTROLLER, 0)) == []


def test_programs_that_are_only_servers_any_more_wait_for_a_client_from_outside() -> None:
    run = Replay(make_plan(task_plan(W0, needs=()), task_plan(W1, needs=()))).up()
    assert run.at(5, Reported(W0, Stage.JOINED), Reported(W1, Stage.JOINED)) == []


def test_where_nobody_is_to_decide_nobody_does() -> None:
    run = Replay(
        make_plan(
            task_plan(CONTROLLER, decides=False, needs=()), task_plan(W0, decides=False, needs=())
        )
    ).up()
    run.at(5, Reported(W0, Stage.JOINED))
    assert run.at(6, Exited(CONTROLLER, 0)) == []
