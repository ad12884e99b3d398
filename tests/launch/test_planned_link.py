"""The links with which the plan counts: the user's, those that doctor measured, or a guess."""

from __future__ import annotations

import time

import pytest

from psclust.launch.planned_link import planned_link
from psclust.rundir.links_file import Link

NOW = time.mktime((2026, 11, 29, 12, 0, 0, 0, 0, -1))
KNOWN = [
    Link(("a", "b"), 0.9412, 0.0002, NOW - 86400),
    Link(("a", "c"), 9.412, 0.0002, NOW - 86400),
    Link(("a", "d"), 0.1, 0.0002, NOW - 31 * 86400),
]


@pytest.mark.parametrize(
    ("gbit", "hosts", "text", "megabytes_s", "note"),
    [
        (
            None,
            "abcd",
            "0.94 Gbit/s",
            117.65,
            "links as doctor measured them on 2026-11-28: 0.94 Gbit/s, the slowest between a and b",
        ),
        (
            None,
            "ac",
            "9.4 Gbit/s",
            1176.5,
            "links as doctor measured them on 2026-11-28: 9.4 Gbit/s, the slowest between a and c",
        ),
        (None, "ad", "1 Gbit/s", 119.6, None),
        (None, "bc", "1 Gbit/s", 119.6, None),
        (2.5, "abcd", "2.5 Gbit/s", 299.0, None),
    ],
)
def test_a_measured_link_is_better_than_a_guess_and_what_the_user_says_wins(
    gbit: float | None, hosts: str, text: str, megabytes_s: float, note: str | None
) -> None:
    speed, said = planned_link(gbit, hosts, KNOWN, NOW)
    assert speed.text == text
    assert speed.bytes_s == pytest.approx(1e6 * megabytes_s)
    assert said == note
