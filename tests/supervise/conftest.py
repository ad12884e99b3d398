"""Fixtures of these tests."""

from __future__ import annotations

import pytest
from histories import PS, W0, W1, Replay, make_plan, task_plan


@pytest.fixture
def run() -> Replay:
    """A ps and two workers that are up."""
    return Replay(make_plan(task_plan(PS), task_plan(W0), task_plan(W1))).up()
