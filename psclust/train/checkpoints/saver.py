"""When to write a checkpoint."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from psclust.errors import NotFiniteError, PsclustError
from psclust.replication.tf_types import Session
from psclust.train.checkpoints.checkpoint import Checkpoints

LOG = logging.getLogger(__name__)


class Saver:
    """Writes a checkpoint every `every_s` seconds or `every_steps` steps, whichever comes first;
    None: never for that reason. timed: makes a context for each. check: called before each, raises
    PsclustError if the folder is not this training's any more."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        every_s: float | None,
        every_steps: int | None = None,
        timed: Callable[[], AbstractContextManager[None]] = nullcontext,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._checkpoints = checkpoints
        self._check = check
        self._timed = timed
        self._every_s = math.inf if every_s is None else every_s
        self._every_steps = math.inf if every_steps is None else every_steps
        self._due = time.monotonic() + self._every_s
        self._due_step = math.inf
        self._last: int | None = None

    def start(self, step: int) -> None:
        """Counts the steps to the next checkpoint from `step`."""
        self._due_step = step + self._every_steps

    def save(self, session: Session, step: int) -> None:
        """Writes one now. Raises PsclustError."""
        self._check()
        self._due, self._due_step = time.monotonic() + self._every_s, step + self._every_steps
        with self._timed():
            self._checkpoints.save(session, step)
        self._last = step

    def is_due(self, step: int) -> bool:
        """At global step `step`, now."""
        return time.monotonic() >= self._due or step >= self._due_step

    def maybe(self, session: Session, step: int, *, event: bool = False) -> bool:
        """Writes one if it is due, or on an `event` unless this step has one; returns whether it
        was written, or, on an event, whether the last one is of this step. Logs a failure to write
        and tries again at the next due time. Raises NotFiniteError."""
        if not self.is_due(step) and (not event or step == self._last):
            return event
        self._check()
        try:
            self.save(session, step)
        except NotFiniteError:
            raise
        except PsclustError as error:
            LOG.warning("%s", error)
            return False
        return True
