"""Asynchronous replicas that may not run too far ahead of the slowest: stale synchronous parallel training (Ho et al., NIPS 2013).

The clock of a replica is the number of its updates, which is what `positions` counts and what survives every client. A replica whose clock
is ahead of the slowest's by more than the bound waits; who has ended its training is not counted, who has died is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from psclust.replication.variables.training_state import State

_POLL_S = 0.05


class StepValues(NamedTuple):
    """What one run of a step gave: `staleness` where there are other replicas, `lead` where there is a bound."""

    step: int
    loss: float
    examples: int
    staleness: int | None = None
    lead: int = 0

    @classmethod
    def of(cls, counts: Any, report: Any, lead: Any = 0) -> StepValues:
        """Of `StepOps.fetches`, and the lead."""
        return cls(int(counts[0]), float(report[0]), int(report[1]), int(counts[1]) if len(counts) > 1 else None, int(lead))


class StalenessBound:
    """That of one replica with a session of its own: the clocks are on the ps. Adds its ops to the current graph. `step`: the tensor that a
    run of the replica leads to."""

    def __init__(self, state: State, replica: int, step: Any, bound: int) -> None:
        self._bound = bound
        self._now = [state.global_step, state.lead(replica)]
        # The lead after a step comes with the step; only who must wait asks for it by itself.
        self.fetches = [state.lead(replica, after=[step])]

    def holds(self, lead: int) -> bool:
        return lead > self._bound

    def look(self, session: Any, pause_s: float = _POLL_S) -> tuple[int, int]:
        """(global step, lead) after a pause."""
        time.sleep(pause_s)
        step, lead = session.run(self._now)
        return int(step), int(lead)


class TowerStalenessBound:
    """That of towers which are driven by threads of one process. `clocks`: where each begins; `bound` None holds nobody."""

    def __init__(self, clocks: Sequence[int], bound: int | None) -> None:
        self._clocks = dict(enumerate(clocks))
        self._bound = bound
        self._changed = threading.Condition()

    def wait(self, tower: int, stop: threading.Event) -> None:
        """Returns when the tower may make another step, or all are to stop."""
        with self._changed:
            while self._ahead(tower) and not stop.is_set():
                self._changed.wait(_POLL_S)

    def advance(self, tower: int) -> None:
        with self._changed:
            self._clocks[tower] += 1
            self._changed.notify_all()

    def end(self, tower: int) -> None:
        """The tower makes no further step."""
        with self._changed:
            self._clocks.pop(tower)
            self._changed.notify_all()

    def _ahead(self, tower: int) -> bool:
        return self._bound is not None and self._clocks[tower] - min(self._clocks.values()) > self._bound
