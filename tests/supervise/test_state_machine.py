"""The rules of a run, by replaying histories: what happened when, and what was to be done about
it."""

from __future__ import annotations

from dataclasses import replace

from histories import LIMITS, PS, USAGE, W0, W1, Replay, live, make_plan, task_plan, word

from psclust.spec.cluster import Task
from psclust.supervise.events import (
    Apply,
    Exited,
    Kill,
    NotStarted,
    Outcome,
    Serving,
    Started,
    Stop,
    Tick,
)
from psclust.supervise.run_state import RunPhase, RunState, TaskPhase
from psclust.supervise.state_machine import transition
from psclust.supervise.task_table import TABLE


def test_clients_start_when_every_server_they_need_answers() -> None:
    run = Replay(make_plan(task_plan(PS), task_plan(W0)))
    assert run.at(0, Apply(run.plan)) == ["start ps:0/1"]
    assert run.at(0.1, Started(PS, 7)) == []
    assert run.at(0.2, Serving(PS)) == ["start worker:0/1"]


def test_the_run_ends_when_all_workers_have_and_servers_are_stopped(run: Replay) -> None:
    assert run.at(5, Exited(W0, 0)) == []
    assert run.at(6, Exited(W1, 0)) == ["TERM ps:0"]
    assert run.at(6.1, Exited(PS, -15)) == ["end 0"]
    assert run.outcome.ok


def test_a_server_that_ignores_term_is_killed_after_the_grace(run: Replay) -> None:
    run.at(5, Exited(W0, 0), Exited(W1, 0))
    assert run.at(14.9, Tick()) == []
    assert run.at(15, Tick()) == ["KILL ps:0"]
    assert run.at(15.1, Tick()) == []
    assert run.at(15.2, Exited(PS, -9)) == ["end 0"]


def test_a_programs_own_failure_ends_the_run_at_once(run: Replay) -> None:
    assert run.at(5, Exited(W1, 3)) == ["TERM ps:0", "TERM worker:0"]
    assert run.outcome == Outcome(False, 1, "worker:1 exited with code 3", cause=W1, attempt=1)
    assert run.at(5.1, Exited(PS, -15)) == []
    assert run.at(5.2, Exited(W0, -15)) == ["end 1"]


def test_a_server_that_never_answers_ends_the_run_naming_it() -> None:
    run = Replay(make_plan(task_plan(PS), task_plan(W0)))
    run.at(0, Apply(run.plan))
    run.at(0.1, Started(PS, 7))
    assert run.at(59, Tick()) == []
    assert run.at(60.1, Tick()) == ["TERM ps:0"]
    assert run.outcome == Outcome(
        False, 3, "ps:0 did not answer within 60 s (deadlines.start)", cause=PS, attempt=1
    )


def test_a_task_that_cannot_be_started_ends_the_run_with_the_reason() -> None:
    run = Replay(make_plan(task_plan(PS), task_plan(W0)))
    run.at(0, Apply(run.plan))
    assert run.at(1, NotStarted(PS, "TensorFlow is not installed")) == ["end 3"]
    assert run.outcome.text == "ps:0 could not be started: TensorFlow is not installed"


def test_stop_is_term_and_a_second_one_kills(run: Replay) -> None:
    assert run.at(5, Stop("Ctrl-C", exit_code=130)) == [
        "TERM ps:0",
        "TERM worker:0",
        "TERM worker:1",
    ]
    assert run.at(5.1, Stop("again")) == []
    assert run.at(5.2, Kill("now")) == ["KILL ps:0", "KILL worker:0", "KILL worker:1"]
    assert run.at(5.3, Exited(PS, -9), Exited(W0, -9), Exited(W1, -9)) == ["end 130"]


def test_a_run_that_is_killed_at_once_ends_with_the_code_of_the_request(run: Replay) -> None:
    assert run.at(5, Kill("psclust down", 143)) == ["KILL ps:0", "KILL worker:0", "KILL worker:1"]
    assert run.at(5.1, Exited(PS, -9), Exited(W0, -9), Exited(W1, -9)) == ["end 143"]


def test_a_task_that_starts_while_the_run_is_being_stopped_is_stopped_too() -> None:
    run = Replay(make_plan(task_plan(PS), task_plan(W0)))
    run.at(0, Apply(run.plan))
    # Its transport may still be about to start it, or have done so already.
    assert run.at(0.1, Stop("Ctrl-C", exit_code=130)) == ["TERM ps:0"]
    assert run.at(0.2, Started(PS, 7)) == ["TERM ps:0"]
    assert run.at(0.3, Exited(PS, -15)) == ["end 130"]


def test_a_run_that_was_never_given_a_plan_can_be_stopped() -> None:
    state, actions = transition(RunState(), Stop("nobody came"), 5)
    assert state.phase is RunPhase.ENDED
    assert [word(action) for action in actions] == ["end 1"]


def test_the_time_limit_ends_the_run() -> None:
    run = live(task_plan(PS), task_plan(W0), deadlines=replace(LIMITS, run_s=100))
    assert run.at(99, Tick()) == []
    assert run.at(100, Tick()) == ["TERM ps:0", "TERM worker:0"]
    assert run.outcome == Outcome(False, 124, "the time limit of 100 s was reached (deadlines.run)")


def test_a_time_limit_may_be_success() -> None:
    run = live(task_plan(PS), task_plan(W0), deadlines=replace(LIMITS, run_s=100, run_exit_code=0))
    run.at(100, Tick())
    assert (run.outcome.ok, run.outcome.exit_code) == (True, 0)


def test_a_changed_plan_touches_only_what_differs(run: Replay) -> None:
    changed = make_plan(task_plan(PS), task_plan(W0), task_plan(W1, argv=("run", "slower")))
    assert run.at(5, Apply(changed)) == ["TERM worker:1"]
    assert run.at(5.1, Exited(W1, -15)) == ["start worker:1/2"]
    assert run.at(5.2, Apply(changed)) == []


def test_a_changed_plan_adds_and_removes_tasks(run: Replay) -> None:
    other = Task("worker", 2)
    assert run.at(5, Apply(make_plan(task_plan(PS), task_plan(W0), task_plan(other)))) == [
        "TERM worker:1",
        "start worker:2/1",
    ]
    assert run.at(5.1, Exited(W1, -15)) == []
    assert W1 not in run.state.tasks


def test_a_task_that_has_ended_can_be_removed(run: Replay) -> None:
    run.at(5, Exited(W1, 0))
    assert run.at(6, Apply(make_plan(task_plan(PS), task_plan(W0)))) == []
    assert W1 not in run.state.tasks


def test_a_second_change_during_the_stop_for_the_first_is_not_lost(run: Replay) -> None:
    run.at(5, Apply(make_plan(task_plan(PS), task_plan(W0), task_plan(W1, argv=("one",)))))
    last = task_plan(W1, argv=("two",))
    run.at(5.1, Apply(make_plan(task_plan(PS), task_plan(W0), last)))
    assert run.at(5.2, Exited(W1, -15)) == ["start worker:1/2"]
    assert run.state.tasks[W1].plan == last


def test_a_task_removed_and_added_again_while_it_stops_comes_back(run: Replay) -> None:
    run.at(5, Apply(make_plan(task_plan(PS), task_plan(W0))))
    run.at(5.1, Apply(make_plan(task_plan(PS), task_plan(W0), task_plan(W1))))
    assert run.at(5.2, Exited(W1, -15)) == ["start worker:1/2"]


def test_events_of_unknown_or_ended_tasks_change_nothing(run: Replay) -> None:
    before = run.state
    assert run.at(5, Exited(Task("worker", 9), 1), Serving(W0)) == []
    assert run.state == before or run.state.tasks[PS] == before.tasks[PS]
    run.at(6, Exited(W0, 0))
    assert run.at(7, Exited(W0, 1)) == []
    assert run.phase(W0) is TaskPhase.DONE


def test_every_phase_in_which_a_task_lives_knows_how_it_can_end() -> None:
    for phase in (TaskPhase.STARTING, TaskPhase.RUNNING, TaskPhase.STOPPING):
        assert Exited in TABLE[phase]


def test_an_exit_code_that_is_taken_for_success_is_told() -> None:
    run = live(task_plan(W0, needs=(), ok_exit_codes=(0, 1)))
    run.at(5, Exited(W0, 1))
    assert run.outcome == Outcome(
        True, 0, "worker:0 exited with code 1, which its ok_exit_codes allow"
    )


def test_a_failure_that_speaks_of_the_role_repeats_the_guess_that_it_may_be_due_to() -> None:
    for lived, code, lines, repeated in (
        (3, 2, USAGE, True),
        (200, 2, USAGE, True),
        (3, 2, ("done",), False),
        (3, 1, (), False),
        (3, -9, (), False),
    ):
        run = Replay(
            make_plan(
                task_plan(
                    W0,
                    needs=(),
                    failure_hint="psclust gave it TF_CONFIG",
                    restart=replace(task_plan(W0).restart, max=0),
                )
            )
        )
        run.at(0, Apply(run.plan), Started(W0, 7))
        run.at(lived, Exited(W0, code, lines))
        assert (
            run.outcome.text == "worker:0 exited with code 2; psclust gave it TF_CONFIG"
        ) is repeated


def test_a_failure_that_is_known_has_a_remedy(run: Replay) -> None:
    run.at(
        5,
        Exited(
            W1,
            1,
            (
                "Traceback (most recent call last):",
                "AttributeError: module 'tensorflow' has no attribute 'estimator'",
            ),
        ),
    )
    assert run.outcome.text == "worker:1 exited with code 1"
    assert "psclust.Program (docs/tasks/estimator.md)" in (run.outcome.remedy or "")


def test_to_save_programs_get_usr1_and_servers_stay_until_they_have_ended(run: Replay) -> None:
    assert run.at(5, Stop("saved", exit_code=75, save=True)) == ["USR1 worker:0", "USR1 worker:1"]
    assert run.at(6, Exited(W1, 0)) == []
    # The server may be restarted no more, but it is still there for the other program.
    assert run.phase(PS) is TaskPhase.RUNNING
    assert run.at(7, Exited(W0, -10)) == ["TERM ps:0"]
    assert run.at(7.1, Exited(PS, -15)) == ["end 75"]
    assert run.outcome.text == "saved"


def test_a_program_that_does_not_end_although_it_may_save_is_killed(run: Replay) -> None:
    run.at(5, Stop("saved", exit_code=75, save=True), Exited(W1, 0))
    assert run.at(5 + LIMITS.finish_s - 0.1, Tick()) == []
    assert run.at(5 + LIMITS.finish_s, Tick()) == ["KILL worker:0"]
    assert run.at(5.1 + LIMITS.finish_s, Exited(W0, -9)) == ["TERM ps:0"]


def test_a_program_that_ends_before_its_servers_are_up_has_nothing_to_save() -> None:
    run = Replay(make_plan(task_plan(PS), task_plan(W0)))
    run.at(0, Apply(run.plan))
    run.at(0.1, Started(PS, 7))
    assert run.at(1, Stop("saved", exit_code=75, save=True)) == ["TERM ps:0"]
    assert run.at(1.1, Exited(PS, -15)) == ["end 75"]


def test_to_stop_now_kills_programs_that_save(run: Replay) -> None:
    run.at(5, Stop("saved", exit_code=75, save=True))
    assert run.at(6, Kill("now")) == ["KILL ps:0", "KILL worker:0", "KILL worker:1"]
