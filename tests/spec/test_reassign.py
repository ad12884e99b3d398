"""Where the tasks of lost hosts go."""

from __future__ import annotations

import pytest

from psclust.errors import NoRoomError
from psclust.spec.cluster import Host, Task
from psclust.spec.host_assignment import assign, reassign
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
