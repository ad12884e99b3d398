"""What a task says about its training: a line now and then, and the progress file."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from psclust.train.progress import Progress, ProgressFile

LOG = logging.getLogger(__name__)


class Reporter:
    """Counts steps and examples and tells about them every `every_s` seconds. Threads may share it."""

    def __init__(self, file: ProgressFile, every_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = file
        self._every_s = every_s
        self._clock = clock
        self._lock = threading.Lock()
        self._last_line = clock()
        self._examples = 0
        self.steps = 0
        self.progress = Progress()

    def step(self, step: int, loss: float, examples: int) -> None:
        """One step of this task is done: the global step it led to, the mean loss and the number of its examples."""
        with self._lock:
            self.steps += 1
            self._examples += examples
            now = self._clock()
            due = now - self._last_line >= self._every_s
            rate = self.progress.examples_per_s
            if due:
                rate = self._examples / (now - self._last_line)
                self._examples, self._last_line = 0, now
            # JSON has no NaN.
            shown = loss if math.isfinite(loss) else None
            self.progress = Progress(max(step, self.progress.step), shown, rate, "train", self.progress.metrics)
            self._file.write(self.progress)
        if due:
            LOG.info("step %d loss %.4g %.0f examples/s", step, loss, rate)

    def phase(self, phase: str, metrics: Mapping[str, float] | None = None) -> None:
        with self._lock:
            self.progress = replace(self.progress, phase=phase, metrics=dict(metrics or self.progress.metrics))
            self._file.write(self.progress, force=True)
