"""The rules of a run, by replaying histories: what happened when, and what was to be done about
it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from histories import CHIEF, EVAL, LIMITS, PS, W0, W1, Replay, make_plan, task_plan, word

from psclust.plan.task_plan import RestartPolicy
from psclust.spec.cluster import Task
from psclust.supervise.events import (
    Apply,
    Exited,
    Kill,
    NotStarted,
    Outcome,
    Reported,
    Restart,
    Serving,
    Stage,
    Started,
    Stop,
    Tick,
)
from psclust.supervise.run_state import RunPhase, RunState, TaskPhase
from psclust.supervise.state_machine import step
from psclust.supervise.task_table import TABLE


@pytest.fixture
def run() -> Replay:
    return Replay(make_plan(task_plan(PS), task_plan(W0), task_plan(W1))).up()


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


def test_a_killed_worker_is_started_again_after_its_back_off(run: Replay) -> None:
    assert run.at(5, Exited(W1, -9)) == []
    assert run.phase(W1) is TaskPhase.BACKOFF
    assert run.at(5.9, Tick()) == []
    assert run.at(6.3, Tick()) == ["start worker:1/2"]


def test_back_off_doubles_until_the_limit_ends_the_run(run: Replay) -> None:
    now, waits = 5.0, []
    for attempt in range(2, 5):
        run.at(now, Exited(W1, -9))
        due = run.state.tasks[W1].due
        assert due is not None
        waits.append(due - now)
        now = due
        assert run.at(now, Tick()) == [f"start worker:1/{attempt}"]
        run.at(now, Started(W1, 200))
    assert [round(wait) for wait in waits] == [1, 2, 4]
    assert run.at(now, Exited(W1, -9)) == ["TERM ps:0", "TERM worker:0"]
    assert run.outcome.text.startswith("worker:1 was killed by SIGKILL")
    assert "had used its 3 restarts" in run.outcome.text


def test_old_restarts_are_forgiven_after_the_window(run: Replay) -> None:
    now = 5.0
    for _ in range(6):
        run.at(now, Exited(W1, -9))
        assert run.phase(W1) is TaskPhase.BACKOFF
        run.at(now + 60, Tick())
        run.at(now + 60, Started(W1, 200))
        now += 700


def test_a_programs_own_failure_ends_the_run_at_once(run: Replay) -> None:
    assert run.at(5, Exited(W1, 3)) == ["TERM ps:0", "TERM worker:0"]
    assert run.outcome == Outcome(False, 1, "worker:1 exited with code 3", cause=W1, attempt=1)
    assert run.at(5.1, Exited(PS, -15)) == []
    assert run.at(5.2, Exited(W0, -15)) == ["end 1"]


def test_a_failure_right_after_a_kill_elsewhere_is_collateral_and_restarted(run: Replay) -> None:
    run.at(5, Exited(PS, -9))
    run.at(5.5, Exited(W0, 1))
    assert run.phase(W0) is TaskPhase.BACKOFF
    assert run.phase(PS) is TaskPhase.BACKOFF


def test_when_collateral_ends_the_run_the_first_cause_is_named() -> None:
    never = RestartPolicy("never", 0, 600, 1, 30)
    run = Replay(make_plan(task_plan(PS), task_plan(W0, restart=never), task_plan(W1))).up()
    run.at(5, Exited(PS, -9))
    run.at(5.5, Exited(W0, 1))
    assert run.outcome.cause == PS
    assert run.outcome.collateral == (W0,)
    assert run.outcome.text.startswith("ps:0 was killed by SIGKILL")
    assert "worker:0 exited with code 1 after it" in run.outcome.text


def test_a_restarted_server_is_waited_for_by_clients_that_start_later(run: Replay) -> None:
    run.at(5, Exited(PS, -9), Exited(W0, -9))
    assert run.at(8, Tick()) == ["start ps:0/2"]
    run.at(8.1, Started(PS, 300))
    assert run.at(8.2, Serving(PS)) == ["start worker:0/2"]


def test_a_server_that_never_answers_ends_the_run_naming_it() -> None:
    run = Replay(make_plan(task_plan(PS), task_plan(W0)))
    run.at(0, Apply(run.plan))
    run.at(0.1, Started(PS, 7))
    assert run.at(59, Tick()) == []
    assert run.at(60.1, Tick()) == ["TERM ps:0"]
    assert run.outcome == Outcome(
        False, 3, "ps:0 did not answer within 60 s (deadlines.start)", cause=PS, attempt=1
    )


def test_a_server_that_fails_before_it_ever_answered_is_not_tried_again() -> None:
    run = Replay(make_plan(task_plan(PS), task_plan(W0)))
    run.at(0, Apply(run.plan), Started(PS, 7))
    assert run.at(1, Exited(PS, 1)) == ["end 3"]


def test_a_task_that_cannot_be_started_ends_the_run_with_the_reason() -> None:
    run = Replay(make_plan(task_plan(PS), task_plan(W0)))
    run.at(0, Apply(run.plan))
    assert run.at(1, NotStarted(PS, "TensorFlow is not installed")) == ["end 3"]
    assert run.outcome.text == "ps:0 could not be started: TensorFlow is not installed"


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


def test_an_evaluator_that_gave_up_never_ends_the_run() -> None:
    none_left = RestartPolicy("failure", 0, 600, 1, 30)
    run = Replay(make_plan(task_plan(PS), task_plan(W0), task_plan(EVAL, restart=none_left))).up()
    assert run.at(5, Exited(EVAL, 1)) == []
    assert run.phase(EVAL) is TaskPhase.FAILED
    assert run.at(6, Exited(W0, 0)) == ["TERM ps:0"]


USAGE = ("usage: train.py [-h]", "train.py: error: unrecognized arguments: --job_name=worker")
BROKEN = (
    "Traceback (most recent call last):",
    '  File "e.py", line 1, in <module>',
    "ModuleNotFoundError: No module named 'nosuch'",
)


@pytest.mark.parametrize(
    ("code", "lines", "plan", "why"),
    [
        (
            1,
            BROKEN,
            {},
            "another attempt would fail alike (ModuleNotFoundError: No module named 'nosuch')",
        ),
        (
            2,
            USAGE,
            {},
            (
                "another attempt would fail alike (train.py: error: "
                "unrecognized arguments: --job_name=worker)"
            ),
        ),
        (
            2,
            ("no held-out data",),
            {"argv": ("python", "-m", "psclust.train", "m:p")},
            "another attempt would fail alike (no held-out data)",
        ),
        (127, (), {}, "another attempt would fail alike"),
    ],
)
def test_an_evaluator_that_cannot_succeed_is_not_started_again(
    code: int, lines: tuple[str, ...], plan: dict[str, object], why: str
) -> None:
    run = Replay(make_plan(task_plan(PS), task_plan(W0), task_plan(EVAL, **plan))).up()
    assert run.at(5, Exited(EVAL, code, lines)) == []
    assert run.phase(EVAL) is TaskPhase.FAILED
    assert run.state.notes == (
        (
            f"evaluator:0 exited with code {code} and is not started again: {why}; "
            "the run goes on without it"
        ),
    )
    assert run.at(6, Exited(W0, 0)) == ["TERM ps:0"]


def restarts_of_evaluator(
    lines: tuple[str, ...], *, code: int = 1, lived_s: float = 3.0, name: str = "failure"
) -> int:
    """How often an evaluator starts again that fails like this each time."""
    policy = RestartPolicy(name, 3, 600, 1, 30)  # type: ignore[arg-type]
    run, now, restarts = (
        Replay(make_plan(task_plan(W0), task_plan(EVAL, needs=(), restart=policy))).up(),
        1.0,
        0,
    )
    while run.phase(EVAL) is not TaskPhase.FAILED:
        run.at(
            now + lived_s,
            Exited(EVAL, code, tuple(line.replace("#", str(restarts)) for line in lines)),
        )
        now += lived_s + 40
        restarts += len(run.at(now, Tick()))
        run.at(now, Started(EVAL, 200))
    assert len(run.state.notes) == 1
    return restarts


def test_an_evaluator_that_fails_twice_alike_in_a_short_life_is_not_started_a_third_time() -> None:
    assert restarts_of_evaluator((*BROKEN[:2], "ValueError: bad shape")) == 1
    assert (
        restarts_of_evaluator((*BROKEN[:2], "TypeError: cannot add <Thing object at 0x7f#>")) == 1
    )
    assert restarts_of_evaluator(("model_fn failed on its data at m.py:3",)) == 1


@pytest.mark.parametrize(
    ("lines", "more"),
    [
        ((*BROKEN[:2], "ValueError: bad shape #"), {}),
        ((*BROKEN[:2], "ValueError: bad shape"), {"lived_s": 100.0}),
        ((*BROKEN[:2], "ConnectionRefusedError: [Errno 111] Connection refused"), {}),
        (
            (
                *BROKEN[:2],
                "tensorflow.python.framework.errors_impl.UnavailableError: failed to connect",
            ),
            {},
        ),
        ((*BROKEN[:2], "ValueError: Can't load save_path when it is None."), {}),
        (("evaluating",), {}),
        ((), {}),
        (("bad",), {"code": -9}),
    ],
)
def test_an_evaluator_that_may_succeed_is_started_again_until_its_limit(
    lines: tuple[str, ...], more: dict[str, Any]
) -> None:
    assert restarts_of_evaluator(lines, **more) == 3


def test_a_program_that_fails_twice_alike_after_another_was_killed_is_started_again(
    run: Replay,
) -> None:
    now = 5.0
    for _ in range(2):
        run.at(now, Exited(PS, -9))
        run.at(now + 0.1, Exited(W0, 1, (*BROKEN[:2], "ValueError: bad shape")))
        assert run.phase(W0) is TaskPhase.BACKOFF
        now += 10
        run.at(now, Tick(), Started(PS, 300), Serving(PS), Started(W0, 301))
    run.at(now, Exited(PS, -9))
    run.at(now + 0.1, Exited(W0, 1, BROKEN))
    assert run.outcome.text.endswith(
        "and worker:0 exited with code 1 after it; another attempt would fail alike"
    )


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
    state, actions = step(RunState(), Stop("nobody came"), 5)
    assert state.phase is RunPhase.ENDED
    assert [word(action) for action in actions] == ["end 1"]


def test_restart_stops_the_task_and_starts_it_without_counting(run: Replay) -> None:
    assert run.at(5, Restart(W0)) == ["TERM worker:0"]
    assert run.at(5.1, Exited(W0, -15)) == ["start worker:0/2"]
    assert run.state.tasks[W0].restarts == ()
    assert run.at(6, Exited(W1, 0)) == []
    assert run.at(6, Restart(W1)) == ["start worker:1/2"]


def test_the_time_limit_ends_the_run() -> None:
    run = Replay(make_plan(task_plan(PS), task_plan(W0), deadlines=replace(LIMITS, run_s=100))).up()
    assert run.at(99, Tick()) == []
    assert run.at(100, Tick()) == ["TERM ps:0", "TERM worker:0"]
    assert run.outcome == Outcome(False, 124, "the time limit of 100 s was reached (deadlines.run)")


def test_a_time_limit_may_be_success() -> None:
    run = Replay(
        make_plan(
            task_plan(PS), task_plan(W0), deadlines=replace(LIMITS, run_s=100, run_exit_code=0)
        )
    ).up()
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


def test_restarts_that_an_exit_code_rules_out_are_not_called_used_up(run: Replay) -> None:
    run.at(5, Exited(W1, -9))
    run.at(7, Tick())
    run.at(8, Started(W1, 200))
    run.at(200, Exited(W1, 3))
    assert run.outcome.text == "worker:1 exited with code 3"


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


def test_an_exit_code_that_is_taken_for_success_is_told() -> None:
    run = Replay(make_plan(task_plan(W0, needs=(), ok_exit_codes=(0, 1)))).up()
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
