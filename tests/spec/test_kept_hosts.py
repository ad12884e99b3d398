"""Tasks of a live run stay on their hosts when others come and go."""

from __future__ import annotations

import pytest

from psclust.errors import UsageError
from psclust.spec.cluster import Host, Task
from psclust.spec.host_assignment import assign
from psclust.spec.job_keys import Job

PS, W0, W1, W2 = Task("ps", 0), Task("worker", 0), Task("worker", 1), Task("worker", 2)
A, B, C = Host("a", 2), Host("b", 2), Host("c", 2)


def jobs(workers: int) -> dict[str, Job]:
    return {"ps": Job(), "worker": Job(count=workers)}


def test_what_is_kept_is_the_same_without_a_change() -> None:
    first = assign(jobs(3), [A, B, C])
    assert assign(jobs(3), [A, B, C], {task: host.name for task, host in first.items()}) == first


def test_new_tasks_go_on_in_turn_and_the_others_stay() -> None:
    kept = {PS: "a", W0: "a", W1: "b"}
    assert assign(jobs(3), [C, A, B], kept) == {PS: A, W0: A, W1: B, W2: C}


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ([B, C], {PS: B, W0: C, W1: B}),  # a has left
        ([Host("a", 1), B], {PS: Host("a", 1), W0: B, W1: B}),  # a has fewer slots
    ],
)
def test_one_whose_host_has_no_room_moves(hosts: list[Host], expected: dict[Task, Host]) -> None:
    assert assign(jobs(2), hosts, {PS: "a", W0: "a", W1: "b"}) == expected


def test_a_pin_goes_before_and_slots_are_never_exceeded() -> None:
    pinned = {"ps": Job(hosts=["b"]), "worker": Job(count=2)}
    assert assign(pinned, [A, B], {PS: "a", W0: "b", W1: "b"}) == {PS: B, W0: B, W1: A}
    with pytest.raises(UsageError, match="no slot is left"):
        assign(jobs(4), [A, B], {PS: "a"})
