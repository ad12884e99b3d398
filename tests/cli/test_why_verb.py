"""`psclust why` at a prompt: what it shows fits a terminal and says what has failed lately."""

from __future__ import annotations

import re

import pytest

from beds.command import CommandBed
from beds.terminal import Terminal
from psclust.cli.verbs.why import trouble
from psclust.rundir.events_file import record
from psclust.testing.wait import wait_until

SLEEPS = """import time

def nap():
    time.sleep(1000)

nap()
"""


def test_only_what_failed_in_the_last_minutes_is_told_the_last_at_the_end() -> None:
    failed = {"task": "worker:1", "host": "a", "attempt": 1, "after_s": 6.6}
    events = [
        {"time": 100.0, **record("exit", exit_code=3, reason="exited with code 3", **failed)},
        {"time": 1000.0, **record("exit", exit_code=0, reason="exited with code 0", **failed)},
        {"time": 1005.0, **record("exit", exit_code=137, reason="was killed by SIGKILL", **failed)},
        {"time": 1006.0, **record("host_silent", host="b")},
    ]
    assert list(trouble(events, 1010.0)) == [
        "",
        "lately:",
        "    5.0 s ago  worker:1  attempt 1 was killed by SIGKILL, after 6.6 s",
        "    4.0 s ago  b: contact broke off",
    ]
    assert list(trouble(events[:2], 1010.0)) == []


def test_where_all_tasks_start_again_only_the_death_is_shown_and_the_reason_once() -> None:
    why = "all tasks start again with ps:0 (on_ps_failure: restart-all)"
    ps, worker = (
        {"task": task, "host": "a", "attempt": 1, "time": 1000.0} for task in ("ps:0", "worker:0")
    )
    killed = {"exit_code": 137, "reason": "was killed by SIGKILL", "after_s": 9.0, "step": None}
    stopped = {"exit_code": 143, "reason": "was killed by SIGTERM", "after_s": 9.0, "step": None}
    events = [
        {**ps, **record("exit", **killed)},
        {**ps, **record("restart", reason=why, delay_s=0.0)},
        {**worker, **record("restart", reason=why, delay_s=0.0)},
        {**worker, **record("signal", signal="TERM")},
        {**worker, "time": 1001.0, **record("exit", **stopped)},
    ]
    assert list(trouble(events, 1010.0))[2:] == [
        "    10 s ago  ps:0  attempt 1 was killed by SIGKILL, after 9.0 s",
        f"    10 s ago  ps:0  gets another attempt in 0.0 s: {why}",
    ]


@pytest.mark.process
def test_on_a_terminal_a_task_that_came_back_is_shown_with_what_had_ended_it(
    bed: CommandBed,
) -> None:
    bed.write("train.py", SLEEPS)
    bed.done("up", "-d", "--ps", "0", "--workers", "2", "--no-preload", "train.py")
    bed.signal("worker:1")
    bed.wait_for("worker:1", "running", attempt=2)

    def both_nap() -> list[str] | None:
        terminal = Terminal(
            [*bed.command, "why"],
            cwd=bed.folder,
            env=bed.environment({"TERM": "xterm"}),
            columns=80,
        )
        assert terminal.wait() == 0, terminal.written
        return (
            terminal.screen if "\n".join(terminal.screen).count("nap (train.py:4)") == 4 else None
        )

    lines = wait_until(both_nap, what="both tasks at their line")
    assert lines is not None
    assert re.match(r"worker:0  in its own code: nap \(train.py:4\), silent for \d", lines[0]), (
        lines
    )
    assert lines[lines.index("worker:1, innermost first:") + 1] == "    nap (train.py:4)"
    lately = lines[lines.index("lately:") + 1 :]
    assert re.match(r"    \S+ s ago  worker:1  attempt 1 was killed by SIGKILL", lately[0]), lines
    assert any("worker:1  gets another attempt" in line for line in lately), lines
    bed.done("down")
