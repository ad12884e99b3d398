"""What every kind of training needs: the program, the place of this task, the options, and the checkpoints of a finished graph."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from psclust.errors import UsageError
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
    """Writes checkpoints when they are due. One that cannot be written while training goes on is reported and tried again later."""

    def __init__(self, checkpoints: Checkpoints, every_s: float) -> None:
        self.checkpoints = checkpoints
        self._every_s = every_s
        self._due = time.monotonic() + every_s

    def maybe(self, session: Any, step: int) -> None:
        if time.monotonic() < self._due:
            return
        try:
            self.checkpoints.save(session, step)
        except UsageError as error:
            LOG.warning("%s", error)
        self._due = time.monotonic() + self._every_s


def refuse_no_data(position: int, replica: str) -> None:
    """Raises UsageError where an input ended at its very first batch."""
    if position == 0:
        raise UsageError(
            f"the input of {replica} has no batch at all: input_fn returned an empty dataset, or there are fewer elements than replicas"
        )
