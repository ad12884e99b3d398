"""Wait for a condition with a deadline, where a test would otherwise sleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")

# Long enough for a busy machine; only a fault waits that long.
PATIENCE_S = 300.0


def wait_until(
    condition: Callable[[], _T], deadline_s: float = PATIENCE_S, *, what: str = "the condition"
) -> _T:
    """Poll `condition` every 10 ms; returns its first true value. Raises TimeoutError after
    `deadline_s`."""
    end = time.monotonic() + deadline_s
    while not (value := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not come true within {deadline_s:g} s")
        time.sleep(0.01)
    return value
