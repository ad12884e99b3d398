"""What hosts say of the ways between them, by table."""

from __future__ import annotations

import pytest
from test_doctor_checks import shown

from psclust.reach.doctor.thorough_checks import Unmeasured, Unreached, network
from psclust.rundir.links_file import Link


def test_ways_that_are_closed_are_told_by_who_cannot_go_them() -> None:
    ways = [Unreached("a", host, f"{host}:2300", "no answer") for host in "bcdef"]
    found = network("abcdef", ways, {"f": "10.0.0.6: port 2300 is taken"})
    assert [(finding.host, finding.level) for finding in found] == [
        ("f", "problem"),
        ("a", "problem"),
        *((host, "ok") for host in "bcde"),
    ]
    assert found[0].text == "cannot listen for others: 10.0.0.6: port 2300 is taken"
    assert found[1].text == (
        "cannot reach b at b:2300 (no answer), c at c:2300 (no answer), d at d:2300 (no answer), "
        "e at e:2300 (no answer) and 1 more"
    )


def link(hosts: str, gbit: float, round_trip_s: float) -> Link:
    return Link((hosts[0], hosts[1]), gbit, round_trip_s, 0.0)


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        ([], "reaches all others"),
        (
            [link("ab", 0.94123, 0.000213)],
            "reaches all others; 941 Mbit/s and 0.21 ms between a and b",
        ),
        (
            [link("ab", 0.94, 0.0002), link("bc", 0.0941, 0.0013), link("ac", 0.9, 0.0003)],
            "reaches all others; 94.1 to 940 Mbit/s, 0.2 to 1.3 ms; the slowest between b and c",
        ),
        (
            [link("ab", 23.4321, 0.0000152), link("bc", 23.4321, 0.12)],
            "reaches all others; 23400 Mbit/s, 0.015 to 120 ms; the slowest between a and b",
        ),
    ],
)
def test_hosts_that_reach_each_other_say_how_fast(links: list[Link], expected: str) -> None:
    found = network("abc", [], {}, links)
    assert [shown(finding) for finding in found] == [
        f"ok {host} network: {expected}." for host in "abc"
    ]


def test_a_link_that_could_not_be_measured_is_a_note() -> None:
    found = network("ab", [], {}, [], [Unmeasured("a", "b", "no data arrives")])
    assert [shown(finding) for finding in found if finding.level != "ok"] == [
        "note a network: reaches b, but the link could not be measured (no data arrives). "
        "Perhaps large packets are lost on the way: compare the MTU of their interfaces."
    ]
