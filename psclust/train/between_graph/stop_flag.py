"""The wish of one replica that all end their training, as the others hear of it: a flag on the first ps."""

from __future__ import annotations

import time
from typing import Any

from psclust.replication.variables.training_state import State

_INTERVAL_S = 0.5


class StopFlag:
    """Adds its op to the current graph. Reading costs a round trip, so a replica that only wants to know looks twice a second."""

    def __init__(self, state: State) -> None:
        self._flag = state.stop
        self._raise = state.ask_to_stop()
        self._next = 0.0

    def set(self, session: Any) -> None:
        session.run(self._raise)

    def is_set(self, session: Any) -> bool:
        return bool(session.run(self._flag)[0])

    def poll(self, session: Any) -> bool:
        """As `is_up`, but False between two looks."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + _INTERVAL_S
        return self.is_set(session)
