"""What each attempt did when, from made-up events."""

from __future__ import annotations

from typing import Any

from psclust.rundir.events_file import Record, record
from psclust.rundir.run_attempts import run_attempts


def event(
    run_s: float, kind: str, task: str = "worker:0", attempt: int = 1, **fields: Any
) -> Record:
    return {"run_s": run_s, **record(kind, task=task, host="a", attempt=attempt, **fields)}


PLAN = {
    "run_s": 0.0,
    **record(
        "plan", tasks=[{"task": "ps:0", "role": "server"}, {"task": "worker:0", "role": "program"}]
    ),
}
EVENTS = [
    PLAN,
    event(0.1, "start", "ps:0"),
    event(0.2, "process", "ps:0", pid=1),
    event(1.0, "serving", "ps:0", address="a:1"),
    event(1.0, "start"),
    event(1.5, "process", pid=2),
    event(3.0, "progress", phase="train"),
    event(5.0, "exit", exit_code=137, reason="was killed by SIGKILL", after_s=3.5),
    event(5.0, "restart", reason="was killed by SIGKILL", delay_s=1.0),
    event(6.0, "start", attempt=2),
    event(6.5, "not_started", attempt=2, reason="no such file"),
    event(7.0, "start", attempt=3),
    event(7.5, "process", attempt=3, pid=3),
    event(8.0, "progress", attempt=3, phase="train"),
    event(9.0, "progress", attempt=3, phase="done"),
    event(9.5, "signal", "ps:0", signal="TERM"),
    event(9.7, "exit", "ps:0", exit_code=143, reason="was killed by SIGTERM", after_s=9.5),
]


def test_a_run_that_goes_on() -> None:
    ps, first, second, third = run_attempts(EVENTS)
    assert ps.segments(20.0) == [("start", 0.1, 1.0), ("serve", 1.0, 9.7)]
    assert first.segments(20.0) == [("start", 1.0, 1.5), ("run", 1.5, 3.0), ("train", 3.0, 5.0)]
    assert third.segments(20.0) == [("start", 7.0, 7.5), ("run", 7.5, 8.0), ("train", 8.0, 20.0)]
    assert [each.failed for each in (ps, first, second, third)] == [False, True, True, False]
    assert (second.exit_code, second.reason) == (None, "no such file")


def test_what_had_no_exit_ends_with_the_run() -> None:
    end = {"run_s": 10.0, **record("end", ok=False, exit_code=1, reason="killed")}
    assert run_attempts([*EVENTS, end])[-1].ended_s == 10.0
    assert run_attempts([PLAN, end]) == []
