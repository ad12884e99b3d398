"""A stop flag on the first ps: any replica may set it to end the training of all; all poll it."""

from __future__ import annotations

import time

from psclust.replication.tf_types import Session
from psclust.replication.variables.training_state import State

_INTERVAL_S = 0.5


class StopFlag:
    """Adds its op to the current graph. Reading costs a round trip, so `poll` reads twice a
    second."""

    def __init__(self, state: State) -> None:
        self._now = state.now
        self._set = state.ask_to_stop()
        self._next = 0.0

    def set(self, session: Session) -> None:
        session.run(self._set)

    def is_set(self, session: Session) -> bool:
        return bool(session.run(self._now).stop[0])

    def poll(self, session: Session) -> bool:
        """As `is_set`, but False between two reads."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + _INTERVAL_S
        return self.is_set(session)
