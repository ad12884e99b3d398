"""Hosts that are to join or leave a live run, as they are typed."""

from __future__ import annotations

import pytest

from psclust.errors import UsageError
from psclust.launch.host_change import SAME_HOSTS, HostChange, parse_host_change
from psclust.spec.cluster import Host


def test_signs_say_who_joins_and_who_leaves() -> None:
    found = parse_host_change(["+e,me@f:2", "-a", "-b,c"])
    assert found == HostChange((Host("e"), Host("f", 2, "me")), ("a", "b", "c"))
    assert bool(found)
    assert not SAME_HOSTS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("e", r"-H e: write -H \+e to add hosts, or -H -e to leave them out."),
        ("+", r"-H \+: names no host"),
        ("+e:x y", r"-H \+e:x y: "),
    ],
)
def test_anything_else_is_corrected(text: str, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        parse_host_change([text])
