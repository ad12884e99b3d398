"""What every kind of training needs: the program, the place of this task, the options, and the checkpoints of a finished graph."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from psclust.errors import NotFiniteError, PsclustError, UsageError
from psclust.train.checkpoints.checkpoint import Checkpoints
from psclust.train.program import Program
from psclust.train.program_options import Options
from psclust.train.report import Reporter
from psclust.train.task_context import TaskContext

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """One task's part of a training. hooks: session hooks to run beside those of the model function."""

    program: Program
    context: TaskContext
    options: Options
    model_dir: Path
    reporter: Reporter
    hooks: Sequence[Any] = ()

    @property
    def save_s(self) -> float | None:
        """Seconds between checkpoints."""
        return self.program.config.save_seconds if self.options.save_s is None else self.options.save_s

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

    def __init__(self, checkpoints: Checkpoints, every_s: float | None, every_steps: int | None = None) -> None:
        self._checkpoints = checkpoints
        self._every_s = math.inf if every_s is None else every_s
        self._every_steps = math.inf if every_steps is None else every_steps
        self._due = time.monotonic() + self._every_s
        self._due_step = math.inf
        self._last: int | None = None

    def start(self, step: int) -> None:
        """Training goes on from `step`."""
        self._due_step = step + self._every_steps

    def save(self, session: Any, step: int) -> None:
        """Writes one now. Raises PsclustError."""
        self._due, self._due_step = time.monotonic() + self._every_s, step + self._every_steps
        self._checkpoints.save(session, step)
        self._last = step

    def maybe(self, session: Any, step: int, *, event: bool = False) -> None:
        """Writes one when it is due, or there is an `event` worth it and none of this step. One that cannot be written while training goes
        on is reported and tried again later."""
        due = time.monotonic() >= self._due or step >= self._due_step
        if due or (event and step != self._last):
            try:
                self.save(session, step)
            except NotFiniteError:
                raise
            except PsclustError as error:
                LOG.warning("%s", error)


def no_data(replica: str) -> UsageError:
    """What is wrong where an input ends at its very first batch."""
    return UsageError(f"{replica} has no batch at all: input_fn returned an empty dataset, or there are fewer elements than replicas")
