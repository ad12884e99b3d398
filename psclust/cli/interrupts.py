"""Ctrl-C and TERM for a command that must not be left half done."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from psclust.cli import streams


class Interrupts:
    """Counts Ctrl-C and TERM instead of raising. `last`: the name and exit code of the last one."""

    def __init__(self) -> None:
        self._count = 0
        self._seen = 0
        self._raise = False
        self.last = ("Ctrl-C", 130)

    def __enter__(self) -> Interrupts:
        self._before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *details: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def raised(self) -> Iterator[None]:
        """Inside, the next one, or one that came before, raises KeyboardInterrupt."""
        self._raise = True
        try:
            if self._count:
                raise KeyboardInterrupt
            yield
        finally:
            self._raise = False

    @property
    def count(self) -> int:
        return self._count

    def unseen(self) -> list[int]:
        """The ordinals of the signals since the last call."""
        fresh = list(range(self._seen + 1, self._count + 1))
        self._seen = self._count
        return fresh

    def _note(self, number: int, frame: object) -> None:
        self._count += 1
        streams.hurry()
        self.last = ("Ctrl-C", 130) if number == signal.SIGINT else ("SIGTERM", 143)
        if self._raise:
            self._raise = False
            raise KeyboardInterrupt
