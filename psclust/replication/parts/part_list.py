"""The parts of the training data: file names, or ranges of examples. No TensorFlow."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from psclust.errors import UsageError

Part = str | tuple[int, int]


@dataclass(frozen=True, slots=True)
class PartList:
    """parts: all names, or all (first example, example after the last). epochs: how often each is
    trained on; None: for ever. shuffled: another order in every epoch, by `seed`. once: a part
    whose worker has died is not given to another."""

    parts: Sequence[Part]
    epochs: int | None = 1
    shuffled: bool = False
    seed: int = 0
    once: bool = False

    @property
    def digest(self) -> int:
        """The same for the same parts in the same order."""
        return zlib.crc32("\n".join(map(str, self.parts)).encode())

    @property
    def are_names(self) -> bool:
        return isinstance(self.parts[0], str)


def ranges(examples: int, size: int) -> list[tuple[int, int]]:
    """Ranges of `size` examples, (first, after the last), that cover so many `examples`; the last
    may be shorter. Raises UsageError for numbers below one."""
    if examples < 1 or size < 1:
        raise UsageError(f"ranges({examples}, {size}): give numbers of at least 1")
    return [(first, min(first + size, examples)) for first in range(0, examples, size)]


def checked_parts(found: Iterable[object]) -> tuple[Part, ...]:
    """`parts` of a program as they are used. Raises UsageError for anything but a list of names or
    of ranges, and for an empty one."""
    parts = tuple(_part(each) for each in found)
    if not parts:
        raise UsageError("parts is empty; give the names of the files, or psclust.ranges(...)")
    if len({isinstance(part, str) for part in parts}) > 1:
        raise UsageError("parts has names and ranges; give one kind")
    return parts


def _part(found: object) -> Part:
    if isinstance(found, str):
        return found
    if hasattr(found, "__fspath__"):
        return str(found)
    try:
        first, end = (int(number) for number in found)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise UsageError(
            f"parts has {found!r}; each is a file's name, or (first example, after the last)"
        ) from None
    if not 0 <= first < end:
        raise UsageError(f"parts has the range ({first}, {end}), which is empty or negative")
    return first, end
