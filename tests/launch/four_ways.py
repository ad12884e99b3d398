"""The four ways to train a psclust program, for tests that try them all."""

from __future__ import annotations

from itertools import product

import pytest


def in_all_four_ways(*, cheap: tuple[str, str] | None = None) -> pytest.MarkDecorator:
    """Parametrize a test by `replication` and `update`, as `up` takes them. All ways but `cheap`
    are marked `long`."""
    ways = product(("between-graph", "in-graph"), ("--sync", "--async"))
    return pytest.mark.parametrize(
        ("replication", "update"),
        [pytest.param(*way, marks=() if way == cheap else pytest.mark.long) for way in ways],
    )
