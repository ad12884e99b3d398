"""A bound on how far an asynchronous replica may run ahead of the slowest: stale synchronous
parallel training (Ho et al., NIPS 2013).

The clock of a replica is the number of its updates, which `positions` counts on the ps, so it
survives every client. A replica waits while its clock is ahead of the slowest one's by more than
the bound. Replicas that have ended do not count; those that died do.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from psclust.replication.tf_types import Session, Tensor
from psclust.replication.variables.training_state import State

_POLL_S = 0.05


class StepValues(NamedTuple):
    """The results of one step. staleness: if there are other replicas. lead: over the slowest
    replica, if there is a bound. parts: where they are handed out, those of the batches that the
    step has used, -1 for padding."""

    step: int
    loss: float
    examples: int
    staleness: int | None = None
    lead: int = 0
    parts: Sequence[int] = ()

    @classmethod
    def of(cls, counts: Any, results: Any, lead: Any = 0) -> StepValues:
        """From the values of `StepOps.fetches`, and the lead."""
        return cls(
            int(counts[0]),
            float(results[0]),
            int(results[1]),
            int(counts[1]) if len(counts) > 1 else None,
            int(lead),
            [int(part) for part in results[2:]],
        )


class StalenessBound:
    """The bound of one replica with its own session: the clocks are on the ps. Adds its ops to the
    current graph. step: the global step after a step of the replica, a tensor."""

    def __init__(self, state: State, replica: int, step: Tensor, bound: int) -> None:
        self._bound = bound
        self._now = [state.global_step, state.lead(replica)]
        # The lead arrives with each step; only a replica that waits fetches it alone.
        self.fetches = [state.lead(replica, after=[step])]

    def holds(self, lead: int) -> bool:
        return lead > self._bound

    def look(self, session: Session, pause_s: float = _POLL_S) -> tuple[int, int]:
        """Returns (global step, lead) after a pause."""
        time.sleep(pause_s)
        step, lead = session.run(self._now)
        return int(step), int(lead)


class TowerStalenessBound:
    """The bound of towers that are driven by threads of one process. clocks: the initial ones.
    bound: None lets all go on."""

    def __init__(self, clocks: Sequence[int], bound: int | None) -> None:
        self._clocks = dict(enumerate(clocks))
        self._bound = bound
        self._changed = threading.Condition()

    def wait(self, tower: int, stop: threading.Event) -> None:
        """Returns when the tower may make another step, or `stop` is set."""
        with self._changed:
            while not stop.is_set() and self._bound is not None:
                if self._clocks[tower] - min(self._clocks.values()) <= self._bound:
                    return
                self._changed.wait(_POLL_S)

    def advance(self, tower: int) -> None:
        with self._changed:
            self._clocks[tower] += 1
            self._changed.notify_all()

    def end(self, tower: int) -> None:
        """Removes the tower: it makes no further step."""
        with self._changed:
            self._clocks.pop(tower)
            self._changed.notify_all()
