from __future__ import annotations

import pytest

from psclust.spec.port_range import is_fixed, is_range, parse_port_range


@pytest.mark.parametrize(
    ("ports", "bounds", "fixed", "range_"),
    [
        ("auto", (0, 0), False, False),
        ("2222", (2222, 2222), True, False),
        ("2300-2399", (2300, 2399), False, True),
    ],
)
def test_a_ports_key_is_auto_or_one_port_or_a_range(
    ports: str, bounds: tuple[int, int], fixed: bool, range_: bool
) -> None:
    assert (parse_port_range(ports), is_fixed(ports), is_range(ports)) == (bounds, fixed, range_)
