"""Variables pinned to a ps by name. (Tasks pinned to hosts are the spec's business:
`psclust.spec.slot_checks`.)"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

# Pattern of variable names (`*`, `?`, `[...]`) -> index of the ps. The first pattern that fits
# counts.
Pins = Mapping[str, int]


def pinned_ps(pins: Pins, name: str, whole: str | None = None) -> int | None:
    """The ps that the variable `name` is pinned to; None if no pattern fits. A pattern for `whole`
    fits its shards too."""
    names = [name, whole] if whole else [name]
    return next(
        (ps for pattern, ps in pins.items() if any(fnmatchcase(known, pattern) for known in names)),
        None,
    )


def impossible_pins(pins: Pins, ps: int) -> Iterator[tuple[str, int]]:
    """The pins, as (pattern, index), to a ps that does not exist if there are `ps` of them."""
    return ((pattern, index) for pattern, index in pins.items() if not 0 <= index < ps)
