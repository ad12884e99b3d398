"""The ways to train that a test is repeated for: some of them in every run, the others in the long
tier alone; and the types of the fixtures that train."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from trained import Trained

from beds.tiers import longer

Train = Callable[..., Trained]  # the fixture train_here
Start = Callable[..., Any]  # the fixture processes
ALONE = (None, False)
ON_A_CLUSTER = [
    ("in-graph", False),
    ("in-graph", True),
    ("between-graph", False),
    ("between-graph", True),
]


def ways(*quick: tuple[str | None, bool]) -> pytest.MarkDecorator:
    """Repeats a test for each (replication, sync), which in every run are `quick`; among these are
    ALONE, or else the test is for clusters."""
    others = [way for way in ON_A_CLUSTER if way not in quick]
    return pytest.mark.parametrize(("replication", "sync"), [*quick, *longer(*others)])


def replications(*quick: str | None) -> pytest.MarkDecorator:
    """Repeats a test for both replications, which in every run are `quick`."""
    others = [each for each in ("in-graph", "between-graph") if each not in quick]
    return pytest.mark.parametrize("replication", [*quick, *longer(*others)])
