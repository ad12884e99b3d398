"""What the words of `psclust inject` mean."""

from __future__ import annotations

import random

import pytest

from psclust.errors import UsageError
from psclust.launch.fault_target import FaultTarget, find_fault_target
from psclust.rundir.status import RunStatus, TaskStatus
from psclust.transport.faults import FaultKind


def _task(task: str, host: str, pid: int | None = 7, phase: str = "running") -> TaskStatus:
    return TaskStatus(task, "program", phase, host, None, pid, 1, 0, None, 0.0, None)


STATUS = RunStatus(
    "digits",
    "1",
    "/run",
    "running",
    1,
    0.0,
    (
        _task("ps:0", "h1", 11),
        _task("worker:0", "h1", 12),
        _task("worker:1", "h2", 13),
        _task("worker:2", "localhost", 14, "starting"),
        _task("worker:3", "h2", None, "backoff"),
    ),
)


def find(word: str, kind: FaultKind = "kill", seed: int = 0) -> FaultTarget:
    return find_fault_target(word, kind, STATUS, ("h1", "h2", "h3"), random.Random(seed))


def test_a_task_is_its_process_and_for_links_its_host() -> None:
    assert find("worker:1") == FaultTarget("worker:1 on h2", "h2", 13)
    assert find("worker:1", "cut") == FaultTarget("the links of h2", "h2", None)


def test_of_a_job_a_running_task_is_drawn_and_the_same_one_by_the_same_seed() -> None:
    drawn = [find("worker", seed=seed).pid for seed in range(20)]
    assert set(drawn) == {12, 13, 14}
    assert drawn == [find("worker", seed=seed).pid for seed in range(20)]


def test_a_host_is_its_agent_or_its_links_even_if_no_task_is_there() -> None:
    assert find("h3", "freeze") == FaultTarget("the agent on h3", "h3", 0)
    assert find("h3", "slow") == FaultTarget("the links of h3", "h3", None)


def test_the_supervisor_is_on_no_host_of_an_agent() -> None:
    assert find("supervisor") == FaultTarget("the supervisor of digits", "", 0)


@pytest.mark.parametrize(
    ("word", "kind", "said"),
    [
        ("ps:1", "kill", "no such target; it has ps:0, worker:0,"),
        ("h9", "cut", "h1, h2, h3, supervisor"),
        ("worker:3", "kill", "nothing of it runs"),
        ("worker:2", "cut", "only links of other hosts"),
        ("supervisor", "cut", "no such target"),
    ],
)
def test_what_cannot_be_hit_is_refused(word: str, kind: FaultKind, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        find(word, kind)
