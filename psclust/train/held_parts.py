"""The parts of the data that one input has, in the order in which it reads them. No TensorFlow."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence


class HeldParts:
    """Each part has a number, from 0 on since the input began. Threads may share it."""

    def __init__(self) -> None:
        self._parts: deque[int] = deque()
        self._first = 0  # the number of the first of them
        self._lock = threading.Lock()

    @property
    def parts(self) -> Sequence[int]:
        with self._lock:
            return tuple(self._parts)

    def begin(self, parts: Sequence[int]) -> None:
        """The input begins again, with these parts, numbered from 0 on."""
        with self._lock:
            self._first, self._parts = 0, deque(parts)

    def add(self, part: int) -> int:
        """Returns its number."""
        with self._lock:
            self._parts.append(part)
            return self._first + len(self._parts) - 1

    def before(self, part: int) -> Sequence[int]:
        """Those before `part`, of which a batch was used: they are read, and no longer held."""
        with self._lock:
            return self._take(self._parts.index(part)) if part in self._parts else ()

    def read_up_to(self, number: int) -> Sequence[int]:
        """Those before the one that has, or would have, this number: they are no longer held."""
        with self._lock:
            return self._take(number - self._first)

    def _take(self, count: int) -> Sequence[int]:
        taken = [self._parts.popleft() for _ in range(min(count, len(self._parts)))]
        self._first += len(taken)
        return taken
