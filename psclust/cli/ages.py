"""Ages and times as users write and read them."""

from __future__ import annotations

import re
import time

from psclust.errors import UsageError

_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


def parse_age(text: str, option: str) -> float:
    """`90s`, `30min` in seconds. Raises UsageError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]+)", text.strip())
    if found is None or found[2] not in _UNITS:
        raise UsageError(
            f"{option} {text}: found no age; write a number with its unit: "
            "30s, 5min, 12h, 7d or 4w."
        )
    return float(found[1]) * _UNITS[found[2]]


def clock_text(at: float | None) -> str:
    """A time of day with tenths of a second, and the date unless it is today's; `time unknown` for
    None."""
    if at is None:
        return "time unknown"
    tenths = int(at * 10)  # floor: 9.96 s are not yet 10
    moment = time.localtime(tenths // 10)
    date = "" if moment[:3] == time.localtime()[:3] else "%Y-%m-%d "
    return time.strftime(f"{date}%H:%M:%S", moment) + f".{tenths % 10}"
