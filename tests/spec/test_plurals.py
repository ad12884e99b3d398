"""Numbers of things in words."""

from __future__ import annotations

from psclust.spec.plurals import counted, counted_tasks


def test_one_of_a_thing_and_several() -> None:
    assert [counted(count, "worker") for count in (0, 1, 2)] == [
        "0 workers",
        "1 worker",
        "2 workers",
    ]
    assert [counted(count, "ps") for count in (1, 2)] == ["1 ps", "2 ps"]
    assert counted(2, "address", "addresses") == "2 addresses"


def test_the_tasks_of_a_cluster() -> None:
    assert counted_tasks({"worker": 5, "chief": 0, "ps": 1}) == "5 workers and 1 ps"
    assert counted_tasks({"worker": 1}) == "1 worker"
