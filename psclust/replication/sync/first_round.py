"""The number with which a chief's rounds begin."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from psclust.spec.whole_number import whole_number

_ATTEMPT_BITS = 48  # microseconds since a machine's start fit below: nine years


def first_round(environ: Mapping[str, str] = os.environ) -> int:
    """Greater than every round of an earlier chief, and of an earlier call in this process, as
    rounds advance by one or two a step.

    The clock of the machine decides only where no launcher counts the attempts of a task: it may
    be set back, or be that of another host."""
    attempt = whole_number(environ.get("PSCLUST_ATTEMPT", ""))
    if attempt is None:
        return time.time_ns() // 1000
    return (attempt << _ATTEMPT_BITS) + time.monotonic_ns() // 1000
