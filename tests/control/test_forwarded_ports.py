"""Ranges of ports for tasks that have the same address on every host."""

from __future__ import annotations

import pytest

from psclust.control.forwarded_ports import spread
from psclust.errors import StartError
from psclust.plan.port_request import PortRequest
from psclust.spec.cluster import Task


def _requests(*wanted: str) -> list[PortRequest]:
    return [
        PortRequest(Task("ps", index), "127.0.0.1", each, f"h{index}", "10.0.0.1:4000")
        for index, each in enumerate(wanted)
    ]


@pytest.mark.parametrize("wanted", ["auto", "2300-2399", "2300-2303"])
def test_no_two_requests_can_get_the_same_port(wanted: str) -> None:
    found = [each for each in spread(_requests(*[wanted] * 4)).values() if each is not None]
    ports = [set(range(low, high + 1)) for low, high in found]
    assert len(ports) == 4
    assert all(ports)
    assert len(set.union(*ports)) == sum(map(len, ports))
    low, high = (10240, 32767) if wanted == "auto" else map(int, wanted.split("-"))
    assert set.union(*ports) <= set(range(low, high + 1))


def test_as_many_tasks_as_there_are_ports_have_one_each() -> None:
    found = spread(_requests(*["2300-2302"] * 3))
    assert sorted(each for each in found.values() if each) == [
        (2300, 2300),
        (2301, 2301),
        (2302, 2302),
    ]


@pytest.mark.parametrize("wanted", ["2300-2301", "2222"])
def test_too_few_ports_are_told(wanted: str) -> None:
    with pytest.raises(StartError, match=f"ps:0, ps:1, ps:2: {wanted} has too few ports"):
        spread(_requests(*[wanted] * 3))
