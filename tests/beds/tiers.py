"""Which cases of a test are for every run, and which for the long tier alone."""

from __future__ import annotations

from typing import Any

import pytest

LONG = pytest.mark.long


def longer(*cases: Any) -> list[Any]:
    """Cases for the long tier: a tuple has a value for each parameter."""
    given = (case if isinstance(case, tuple) else (case,) for case in cases)
    return [pytest.param(*case, marks=LONG) for case in given]
