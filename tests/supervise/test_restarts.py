"""Which tasks are started again, when and how often, by replaying histories."""

from __future__ import annotations

from typing import Any

import pytest
from histories import EVAL, PS, USAGE, W0, W1, Replay, live, make_plan, task_plan

from psclust.plan.task_plan import RestartPolicy
from psclust.supervise.events import (
    Apply,
    Exited,
    Restart,
    Serving,
    Started,
    Tick,
)
from psclust.supervise.run_state import TaskPhase


def test_a_killed_worker_is_started_again_at_once_and_then_after_its_back_off(
    run: Replay,
) -> None:
    run.at(5, Exited(W1, -9))
    assert run.at(5, Tick()) == ["start worker:1/2"]
    run.at(6, Started(W1, 200))
    assert run.at(7, Exited(W1, -9)) == []
    assert run.phase(W1) is TaskPhase.BACKOFF
    assert run.at(7.9, Tick()) == []
    assert run.at(8.3, Tick()) == ["start worker:1/3"]


def test_back_off_doubles_from_the_second_restart_until_the_limit_ends_the_run(run: Replay) -> None:
    now, waits = 5.0, []
    for attempt in range(2, 5):
        run.at(now, Exited(W1, -9))
        due = run.state.tasks[W1].due
        assert due is not None
        waits.append(due - now)
        now = due
        assert run.at(now, Tick()) == [f"start worker:1/{attempt}"]
        run.at(now, Started(W1, 200))
    assert [round(wait) for wait in waits] == [0, 1, 2]
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


def test_restarts_that_an_exit_code_rules_out_are_not_called_used_up(run: Replay) -> None:
    run.at(5, Exited(W1, -9))
    run.at(7, Tick())
    run.at(8, Started(W1, 200))
    run.at(200, Exited(W1, 3))
    assert run.outcome.text == "worker:1 exited with code 3"


def test_a_failure_right_after_a_kill_elsewhere_is_collateral_and_restarted(run: Replay) -> None:
    run.at(5, Exited(PS, -9))
    run.at(5.5, Exited(W0, 1))
    assert run.phase(W0) is TaskPhase.BACKOFF
    assert run.phase(PS) is TaskPhase.BACKOFF


def test_when_collateral_ends_the_run_the_first_cause_is_named() -> None:
    never = RestartPolicy("never", 0, 600, 1, 30)
    run = live(task_plan(PS), task_plan(W0, restart=never), task_plan(W1))
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


def test_a_server_that_fails_before_it_ever_answered_is_not_tried_again() -> None:
    run = Replay(make_plan(task_plan(PS), task_plan(W0)))
    run.at(0, Apply(run.plan), Started(PS, 7))
    assert run.at(1, Exited(PS, 1)) == ["end 3"]


def test_restart_stops_the_task_and_starts_it_without_counting(run: Replay) -> None:
    assert run.at(5, Restart(W0)) == ["TERM worker:0"]
    assert run.at(5.1, Exited(W0, -15)) == ["start worker:0/2"]
    assert run.state.tasks[W0].restarts == ()
    assert run.at(6, Exited(W1, 0)) == []
    assert run.at(6, Restart(W1)) == ["start worker:1/2"]


def test_an_evaluator_that_gave_up_never_ends_the_run() -> None:
    none_left = RestartPolicy("failure", 0, 600, 1, 30)
    run = live(task_plan(PS), task_plan(W0), task_plan(EVAL, restart=none_left))
    assert run.at(5, Exited(EVAL, 1)) == []
    assert run.phase(EVAL) is TaskPhase.FAILED
    assert run.at(6, Exited(W0, 0)) == ["TERM ps:0"]


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
    run = live(task_plan(PS), task_plan(W0), task_plan(EVAL, **plan))
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
        live(task_plan(W0), task_plan(EVAL, needs=(), restart=policy)),
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
