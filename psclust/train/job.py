"""What every kind of training needs: the program, the place of this task, the options, and the checkpoints of a finished graph."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from psclust.errors import PsclustError, UsageError
from psclust.train.checkpoint import Checkpoints
from psclust.train.options import Options
from psclust.train.program import Program
from psclust.train.report import Reporter
from psclust.train.task import TaskContext

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """One task's part of a training."""

    program: Program
    context: TaskContext
    options: Options
    model_dir: Path
    reporter: Reporter

    def new_graph(self) -> Any:
        """An empty graph with the program's seed."""
        graph = tf.Graph()
        if self.program.seed is not None:
            with graph.as_default():
                tf.compat.v1.set_random_seed(self.program.seed)
        return graph

    def enough(self, step: int) -> bool:
        return self.options.max_steps is not None and step >= self.options.max_steps


class Saver:
    """Decides when a checkpoint is written."""

    def __init__(self, checkpoints: Checkpoints, every_s: float) -> None:
        self._checkpoints = checkpoints
        self._every_s = every_s
        self._due = time.monotonic() + every_s
        self._last: int | None = None

    def save(self, session: Any, step: int) -> None:
        """Writes one now. Raises PsclustError."""
        self._due = time.monotonic() + self._every_s
        self._checkpoints.save(session, step)
        self._last = step

    def maybe(self, session: Any, step: int, *, event: bool = False) -> None:
        """Writes one when it is due, or there is an `event` worth it and none of this step. One that cannot be written while training goes
        on is reported and tried again later."""
        if time.monotonic() >= self._due or (event and step != self._last):
            try:
                self.save(session, step)
            except PsclustError as error:
                LOG.warning("%s", error)


def no_data(replica: str) -> UsageError:
    """What is wrong where an input ends at its very first batch."""
    return UsageError(f"{replica} has no batch at all: input_fn returned an empty dataset, or there are fewer elements than replicas")
