"""Ctrl-C, TERM and USR1 for a command that must not be left half done."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from psclust.cli import streams
from psclust.rundir.status import SAVED_CODE


class Interrupts:
    """Counts Ctrl-C and TERM instead of raising (`count`). `last`: the name and exit code of the
    last one. `saving`: the name of a signal that asks to save first: USR1, and with `term_saves`
    TERM; it is not counted, and raised like the others."""

    def __init__(self, *, term_saves: bool = False) -> None:
        self.saving: str | None = None
        self._saves = {signal.SIGUSR1, *([signal.SIGTERM] if term_saves else [])}
        self.count = 0
        self._seen = 0
        self._raise = False
        self.last = ("Ctrl-C", 130)

    def __enter__(self) -> Interrupts:
        self._before = {
            number: signal.signal(number, self._note)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
        }
        return self

    def __exit__(self, *details: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def raised(self) -> Iterator[None]:
        """Inside, the next one, or one that came before, raises KeyboardInterrupt."""
        self._raise = True
        try:
            if self.count or self.saving:
                raise KeyboardInterrupt
            yield
        finally:
            self._raise = False

    def unseen(self) -> list[int]:
        """The ordinals of the signals since the last call."""
        count = self.count  # Read once: a signal may come between any two instructions.
        fresh = list(range(self._seen + 1, count + 1))
        self._seen = count
        return fresh

    def _note(self, number: int, frame: object) -> None:
        if number in self._saves:
            self.saving = signal.Signals(number).name
            self.last = (self.saving, SAVED_CODE)
        else:
            self.count += 1
            streams.hurry()
            self.last = ("Ctrl-C", 130) if number == signal.SIGINT else ("SIGTERM", 143)
        if self._raise:
            self._raise = False
            raise KeyboardInterrupt
