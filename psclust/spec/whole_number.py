"""Whole numbers in text that anybody may have written."""

from __future__ import annotations

import re

# Python takes other digits for numbers too, or for digits that are none ("²"), and refuses to
# convert thousands of them.
_DIGITS = re.compile(r"[0-9]{1,18}")


def whole_number(text: str) -> int | None:
    """The number that `text` is, 0 or more; None if it is none, or has more than 18 digits."""
    return int(text) if _DIGITS.fullmatch(text) else None
