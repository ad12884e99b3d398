"""When to write a checkpoint."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence

from psclust.errors import NotFiniteError, PsclustError
from psclust.replication.tf_types import Session, Variable
from psclust.train.checkpoints.checkpoint import Checkpoints
from psclust.train.job import Job

LOG = logging.getLogger(__name__)


class Saver:
    """Writes the checkpoints of a training, of `variables`, every `save_s` seconds or `save_steps`
    steps of `job`, whichever comes first; None: never for that reason. device: the process that
    drives the session. Adds ops to the current graph."""

    def __init__(self, job: Job, variables: Sequence[Variable], device: str) -> None:
        config = job.program.config
        self.checkpoints = Checkpoints(variables, job.model_dir, device, config)
        self._job = job
        self._every_s = math.inf if job.save_s is None else job.save_s
        self._every_steps = math.inf if config.save_steps is None else config.save_steps
        self._due = time.monotonic() + self._every_s
        self._due_step = math.inf
        self._last: int | None = None
        self._is_short = False

    def start(self, step: int) -> None:
        """Counts the steps to the next checkpoint from `step`."""
        self._due_step = step + self._every_steps
        self._warn_of_shortage()

    def save(self, session: Session, step: int) -> None:
        """Writes one now. Raises PsclustError."""
        self._job.check_folder()
        self._due, self._due_step = time.monotonic() + self._every_s, step + self._every_steps
        with self._job.reporter.during("saving"):
            self.checkpoints.save(session, step)
        self._last = step
        self._warn_of_shortage()

    def _warn_of_shortage(self) -> None:
        """Once, and again only if there was room in between."""
        shortage = self.checkpoints.folder.shortage()
        if shortage is not None and not self._is_short:
            LOG.warning("%s", shortage)
        self._is_short = shortage is not None

    def maybe(self, session: Session, step: int, *, event: bool = False) -> bool:
        """Writes one if it is due, or on an `event` unless this step has one; returns whether it
        was written, or, on an event, whether the last one is of this step. Logs a failure to write
        and tries again at the next due time. Raises NotFiniteError."""
        due = time.monotonic() >= self._due or step >= self._due_step
        if not due and (not event or step == self._last):
            return event
        self._job.check_folder()
        try:
            self.save(session, step)
        except NotFiniteError:
            raise
        except PsclustError as error:
            LOG.warning("%s", error)
            return False
        return True
