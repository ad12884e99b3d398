"""Looking at a live run again and again, for `psclust top` and `psclust up --top`. One request a
look, and none between looks."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from rich.console import RenderableType

from psclust.cli.top_view import Row, mean_loss, rows, view
from psclust.errors import PsclustError
from psclust.supervise.reading import Reading

LOOK_S = 2.0
Read = Callable[[], Sequence[Reading]]


def looks(
    read: Read, seconds: float, sleep: Callable[[float], object] = time.sleep
) -> Iterator[list[Row]]:
    """The rows of each interval, one a task. Raises the errors of `read`."""
    before, then = read(), time.monotonic()
    while True:
        sleep(seconds)
        now, at = read(), time.monotonic()
        yield rows(now, before, at - then)
        before, then = now, at


class TopTable:
    """Renders looks at one run, and remembers its losses for their curve."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._plain = not (sys.stdout.encoding or "").lower().startswith("utf")
        self._losses: list[float] = []

    def render(self, found: Sequence[Row], width: int) -> RenderableType:
        loss = mean_loss(found)
        self._losses.extend([loss] if loss is not None else [])
        return view(self._name, found, self._losses, width=width, plain=self._plain)


class BackgroundLooks:
    """Looks on a thread of its own, as a silent host makes a look take seconds; until the run has
    ended."""

    def __init__(self, read: Read) -> None:
        self._stopped = threading.Event()
        self._found: list[Row] | None = None
        self._thread = threading.Thread(target=self._run, args=(read,), name="looks", daemon=True)
        self._thread.start()

    def latest(self) -> list[Row] | None:
        """None if there is no look since the last call."""
        found, self._found = self._found, None
        return found

    def stop(self) -> None:
        self._stopped.set()

    def _run(self, read: Read) -> None:
        try:
            for found in looks(read, LOOK_S, self._stopped.wait):
                self._found = found
                if self._stopped.is_set():
                    return
        except PsclustError:
            return
