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

_RATE_S = 1.0


class Reporter:
    """Counts steps and examples, works out the rate over the last second or so, and logs a line every `every_s` seconds. Threads may
    share it."""

    def __init__(self, file: ProgressFile, every_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = file
        self._every_s = every_s
        self._clock = clock
        self._lock = threading.Lock()
        self._last_line = self._last_rate = clock()
        self._examples = 0
        self.steps = 0
        self.progress = Progress()

    def step(self, step: int, loss: float, examples: int) -> None:
        """One step of this task is done: the global step it led to, the mean loss and the number of its examples."""
        with self._lock:
            self.steps += 1
            self._examples += examples
            now = self._clock()
            # JSON has no NaN.
            self.progress = replace(self.progress, step=max(step, self.progress.step), loss=loss if math.isfinite(loss) else None)
            if now - self._last_rate >= _RATE_S:
                self.progress = replace(self.progress, examples_per_s=round(self._examples / (now - self._last_rate), 1))
                self._examples, self._last_rate = 0, now
            if now - self._last_line >= self._every_s:
                self._last_line = now
                rate = self.progress.examples_per_s
                LOG.info("step %d loss %.4g%s", step, loss, "" if rate is None else f" {rate:.0f} examples/s")
            self._file.write(self.progress)

    def phase(self, phase: str, step: int | None = None, metrics: Mapping[str, float] | None = None) -> None:
        """A new phase begins, at global step `step` where that is known, with the `metrics` of the one before."""
        with self._lock:
            known = self.progress
            self.progress = replace(known, phase=phase, step=known.step if step is None else step, metrics=metrics or known.metrics)
            if phase == "train":
                self._last_line = self._last_rate = self._clock()
            self._file.write(self.progress, force=True)
