"""Where the tasks of lost hosts go."""

from __future__ import annotations

import pytest

from psclust.errors import NoRoomError
from psclust.spec.cluster import Host, Task
from psclust.spec.host_assignment import (
    Dispensable,
    assign,
    assign_present,
    closed_up,
    reassign,
)
from psclust.spec.host_lists import parse_hosts
from psclust.spec.job_keys import Job

JOBS = {"ps": Job(), "worker": Job(count=3)}


def after(names: str, *lost: str, jobs: dict[str, Job] | None = None) -> dict[str, str]:
    """task -> host, once they are lost."""
    wanted, hosts = jobs or JOBS, parse_hosts(names, where="-H")
    placed = reassign(assign(wanted, hosts), wanted, hosts, lost, optional=["evaluator"])
    return {str(task): host.name for task, host in placed.items()}


def test_without_a_loss_all_are_where_they_were() -> None:
    assert after("a:2,b:2,c:2") == {"ps:0": "a", "worker:0": "b", "worker:1": "c", "worker:2": "a"}


def test_tasks_go_where_most_slots_are_free_and_all_others_stay() -> None:
    assert after("a:2,b:2,c:2", "a") == {
        "ps:0": "b",
        "worker:0": "b",
        "worker:1": "c",
        "worker:2": "c",
    }
    assert after("a:1,b:1,c:1,d:1,e:1", "c") == {
        "ps:0": "a",
        "worker:0": "b",
        "worker:1": "e",
        "worker:2": "d",
    }


def test_they_move_on_when_that_host_is_lost_too_and_never_back() -> None:
    hosts = "a:1,b:1,c:1,d:1,e:1,f:1"
    assert after(hosts, "c", "e")["worker:1"] == "f"
    with pytest.raises(
        NoRoomError,
        match=r"no spare slot is left for worker:1; a host with more `slots` than tasks",
    ):
        after(hosts, "c", "e", "f")


def test_a_spare_host_that_was_lost_before_is_none() -> None:
    with pytest.raises(NoRoomError, match="worker:1"):
        after("a:1,b:1,c:1,d:1,e:1", "e", "c")


def test_hosts_without_a_number_of_slots_are_spare_only_while_no_task_is_on_them() -> None:
    one = {"ps": Job(), "worker": Job(count=1)}
    assert after("a,b,c", "b", jobs=one) == {"ps:0": "a", "worker:0": "c"}
    with pytest.raises(NoRoomError, match="no spare slot"):
        after("a,b", "b", jobs=one)


def test_pinned_tasks_and_given_addresses_stay_where_they_are() -> None:
    hosts = "a:2,b:2,c:2"
    with pytest.raises(
        NoRoomError, match=r"ps:0 cannot move, because it is pinned to a \(jobs.ps.hosts\)"
    ):
        after(hosts, "a", jobs={"ps": Job(hosts=["a"]), "worker": Job(count=1)})
    with pytest.raises(
        NoRoomError, match=r"ps:0 cannot move, because its address is given \(jobs.ps.addresses\)"
    ):
        after(hosts, "a", jobs={"ps": Job(addresses=["a:2222"]), "worker": Job(count=1)})
    assert (
        after(hosts, "b", jobs={"ps": Job(hosts=["a"]), "worker": Job(count=2)})["worker:1"] != "b"
    )


def test_who_can_be_done_without_goes_last_and_stays_where_there_is_no_room() -> None:
    jobs = {"evaluator": Job(hosts=None), "worker": Job(count=2)}
    hosts = [Host("a", 2), Host("b", 2)]
    placed = {
        Task("evaluator", 0): hosts[0],
        Task("worker", 0): hosts[0],
        Task("worker", 1): hosts[1],
    }
    found = reassign(placed, jobs, hosts, ["a"], optional=["evaluator"])
    assert {str(task): host.name for task, host in found.items()} == {
        "evaluator:0": "a",
        "worker:0": "b",
        "worker:1": "b",
    }


WORKERS = [Task("worker", index) for index in range(1, 4)]
TWO_OF_FOUR = Dispensable(WORKERS, at_most=2)
FOUR = {"ps": Job(), "worker": Job(count=4)}


def short(placed: dict[Task, Host]) -> str:
    return " ".join(f"{task.job[0]}{task.index}:{host.name}" for task, host in placed.items())


@pytest.mark.parametrize(
    ("hosts", "lost", "after"),
    [
        # spare slots first
        ("a:2,b:1,c:1,d:2", "c", "p0:a w0:b w1:d w2:d w3:a"),
        ("a:2,b:1,c:1,d:1", "c", "p0:a w0:b w1:c w2:d w3:a"),
        # what the run needs takes the spare slot
        ("a:2,b:1,c:2,d:1", "a", "p0:c w0:b w1:c w2:d w3:a"),
        ("a:2,b:1,c:1,d:1", "c d", "p0:a w0:b w1:c w2:d w3:a"),
        ("a,b,c,d", "c", "p0:a w0:b w1:c w2:d w3:a"),
    ],
)
def test_workers_stay_behind_where_there_is_no_room(hosts: str, lost: str, after: str) -> None:
    listed = parse_hosts(hosts, where="-H")
    placed = assign(FOUR, listed)
    found = reassign(placed, FOUR, listed, lost.split(), dispensable=TWO_OF_FOUR)
    assert short(found) == after


@pytest.mark.parametrize(
    ("hosts", "lost", "said"),
    [
        ("a:1,b:1,c:1,d:1,e:1", "c d e", "no spare slot is left for worker:3.*fewer than 2 would"),
        ("a:1,b:1,c:1,d:1,e:1", "b", "no spare slot is left for worker:0"),
        ("a:1,b:1,c:1,d:1,e:1", "a", "no spare slot is left for ps:0"),
    ],
)
def test_the_first_worker_the_ps_and_the_least_number_of_workers_are_needed(
    hosts: str, lost: str, said: str
) -> None:
    listed = parse_hosts(hosts, where="-H")
    with pytest.raises(NoRoomError, match=said):
        reassign(assign(FOUR, listed), FOUR, listed, lost.split(), dispensable=TWO_OF_FOUR)


def test_a_worker_that_the_run_does_without_stays_where_it_is_and_counts() -> None:
    listed = parse_hosts("a:2,b:2,c:2", where="-H")
    absent = Dispensable(WORKERS, 2, [WORKERS[0], WORKERS[2]])
    placed = assign(FOUR, listed)
    assert short(placed) == "p0:a w0:b w1:c w2:a w3:b"
    assert short(reassign(placed, FOUR, listed, ["c"], dispensable=absent)) == short(placed)
    single = parse_hosts("a:1,b:1,c:1,d:1,e:1", where="-H")
    first = Dispensable(WORKERS, 2, WORKERS[:2])
    with pytest.raises(NoRoomError, match=r"worker:3; .*fewer than 2"):
        reassign(assign(FOUR, single), FOUR, single, ["e"], dispensable=first)


@pytest.mark.parametrize(
    ("hosts", "lost", "after"),
    [
        ("a:2,b:2,c:2", "b", "p0:a w0:c w1:a w2:c w3:b"),
        ("a:1,b:1,c:1,d:1,e:1", "b c", "p0:a w0:d w1:e w2:b w3:b"),
        ("a:4,b:4", "b", "p0:a w0:a w1:a w2:a w3:b"),
        ("a,b,c", "c", "p0:a w0:b w1:a w2:b w3:a"),
    ],
)
def test_a_run_starts_on_the_hosts_that_are_there(hosts: str, lost: str, after: str) -> None:
    listed = parse_hosts(hosts, where="-H")
    found = assign_present(FOUR, listed, lost.split(), dispensable=TWO_OF_FOUR)
    assert short(found) == after


@pytest.mark.parametrize(
    ("hosts", "lost", "said"),
    [
        ("a:1,b:1,c:1,d:1,e:1", "c d e", "no slot is left for worker:1; fewer than 2 would be"),
        ("a:1,b:1", "a b", "no host is left"),
    ],
)
def test_a_run_does_not_start_on_too_few(hosts: str, lost: str, said: str) -> None:
    listed = parse_hosts(hosts, where="-H")
    with pytest.raises(NoRoomError, match=said):
        assign_present(FOUR, listed, lost.split(), dispensable=TWO_OF_FOUR)


def test_at_the_start_tasks_pinned_to_a_missing_host_are_missing_with_it() -> None:
    listed = parse_hosts("a:4,b:4", where="-H")
    jobs = {"ps": Job(hosts=["a"]), "worker": Job(count=4, hosts=["a", "b"])}
    found = assign_present(jobs, listed, ["b"], dispensable=TWO_OF_FOUR)
    assert short(found) == "p0:a w0:a w1:b w2:a w3:b"
    with pytest.raises(NoRoomError, match="ps:0 cannot move, because it is pinned to a"):
        assign_present(jobs, listed, ["a"], dispensable=TWO_OF_FOUR)


@pytest.mark.parametrize(
    ("absent", "after"),
    [
        ([1], "p0:a w0:b w1:e w2:d"),
        ([3], "p0:a w0:b w1:c w2:d"),
        ([1, 2], "p0:a w0:b w1:e"),
        ([2, 3], "p0:a w0:b w1:c"),
        ([1, 3], "p0:a w0:b w1:d"),
    ],
)
def test_the_last_ones_take_the_places_of_those_that_are_missing(
    absent: list[int], after: str
) -> None:
    placed = assign(FOUR, parse_hosts("a:1,b:1,c:1,d:1,e:1", where="-H"))
    assert short(closed_up(placed, [Task("worker", index) for index in absent])) == after
