"""A stop flag on the first ps: any replica may set it to end the training of all; all poll it.
Synchronous replicas also set it to leave together while the training is not over, where their
number changes."""

from __future__ import annotations

import time

import tensorflow as tf

from psclust.replication.tf_types import Session
from psclust.replication.variables.training_state import State

_INTERVAL_S = 0.5
_STOP, _LEAVE = 1, 2


class StopFlag:
    """Adds its op to the current graph. Reading costs a round trip, so `poll` reads twice a
    second."""

    def __init__(self, state: State) -> None:
        self._now = state.now
        self._value = tf.compat.v1.placeholder(tf.int64, [1], name="stop")
        self._set = state.ask_to_stop(self._value)
        self._next = 0.0

    def set(self, session: Session, *, leave: bool = False) -> None:
        session.run(self._set, {self._value: [_LEAVE if leave else _STOP]})

    def clear(self, session: Session) -> None:
        session.run(self._set, {self._value: [0]})

    def is_to_leave(self, session: Session) -> bool:
        return int(session.run(self._now).stop[0]) == _LEAVE

    def is_set(self, session: Session) -> bool:
        return bool(session.run(self._now).stop[0])

    def poll(self, session: Session) -> bool:
        """As `is_set`, but False between two reads."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + _INTERVAL_S
        return self.is_set(session)
