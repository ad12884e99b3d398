"""The progress of a training: log lines and the progress file."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from psclust.rundir.task_progress import Progress
from psclust.spec.plurals import counted
from psclust.train.progress_file import ProgressFile

LOG = logging.getLogger(__name__)

_RATE_S = 1.0


@dataclass(slots=True)
class Staleness:
    """Over `updates` asynchronous updates: the number of other updates applied between reading the
    variables and the update, in total and at most."""

    updates: int = 0
    total: int = 0
    greatest: int = 0

    def add(self, staleness: int) -> None:
        self.updates += 1
        self.total += staleness
        self.greatest = max(self.greatest, staleness)

    @property
    def mean(self) -> float:
        return self.total / self.updates if self.updates else 0.0

    def __str__(self) -> str:
        return f"staleness {self.mean:.1f} (max {self.greatest})"


class Reporter:
    """Counts steps and examples, computes the rate over about the last second, and logs a line
    every `every_s` seconds. Threads may share it."""

    def __init__(
        self, file: ProgressFile, every_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._file = file
        self._every_s = every_s
        self._clock = clock
        self._lock = threading.Lock()
        self._last_line = self._last_rate = self._phase_began = clock()
        self._examples = 0
        self._rate: float | None = None
        self._recent = Staleness()
        self._barrier_s: float | None = None
        self._step, self._loss = 0, math.nan
        self._phase = "start"
        self._seconds: dict[str, float] = {}
        # Of the phase before, until a step has numbers.
        self._results: Mapping[str, float] | None = None
        self._model: Mapping[str, Any] | None = None
        self.steps = 0
        self.late = 0
        self.staleness = Staleness()

    @property
    def global_step(self) -> int:
        """The greatest global step that this task knows of."""
        return self._step

    @property
    def progress(self) -> Progress:
        """The progress so far."""
        with self._lock:
            barrier = {} if self._barrier_s is None else {"barrier": round(self._barrier_s, 3)}
            return Progress(
                step=self._step,
                # JSON has no NaN.
                loss=self._loss if math.isfinite(self._loss) else None,
                examples_per_s=self._rate,
                phase=self._phase,
                metrics=self._numbers() if self._results is None else self._results,
                seconds=self._seconds | barrier,
                model=self._model,
            )

    def step(
        self,
        step: int,
        loss: float,
        examples: int,
        staleness: int | None = None,
        barrier_s: float | None = None,
    ) -> None:
        """Records one step of this task: the global step it led to, its mean loss and its number of
        examples. staleness: of its update, if other replicas may have made updates in the meantime.
        barrier_s: how long it then waited in the barrier."""
        with self._lock:
            self.steps += 1
            self._examples += examples
            if staleness is not None:
                self.staleness.add(int(staleness))
                self._recent.add(int(staleness))
            if barrier_s is not None:
                self._barrier_s = (self._barrier_s or 0.0) + barrier_s
            loss += 0.0  # of -0.0 that is 0.0
            self._step, self._loss = max(step, self._step), loss
            if self._results is not None and self._numbers():
                self._results = None
            now = self._clock()
            if now - self._last_rate >= _RATE_S:
                self._rate = round(self._examples / (now - self._last_rate), 1)
                self._examples, self._last_rate = 0, now
            if now - self._last_line >= self._every_s:
                self._last_line = now
                rate = "" if self._rate is None else f" {self._rate:.0f} examples/s"
                LOG.info("step %d loss %.4g%s%s", step, loss, rate, self._line_end())
                self._recent = Staleness()
        self._file.write(lambda: self.progress)

    def _numbers(self) -> dict[str, float]:
        late = {"late_gradients": float(self.late)} if self.late else {}
        return late | (
            {"staleness": self.staleness.mean, "staleness_max": self.staleness.greatest}
            if self.staleness.updates
            else {}
        )

    def _line_end(self) -> str:
        return (f" {self.late} late" if self.late else "") + (
            f" {self._recent}" if self._recent.updates else ""
        )

    def model(self, facts: Mapping[str, Any]) -> None:
        """Records what is known of the model from now on; see `Progress.model`."""
        with self._lock:
            self._model = facts

    def dropped(self) -> None:
        """Records a gradient that came too late for its step."""
        with self._lock:
            self.late += 1

    @property
    def remarks(self) -> str:
        """Late gradients and staleness of the whole training, to append to a sentence."""
        remarks = [f"{counted(self.late, 'late gradient')} dropped"] if self.late else []
        remarks += [str(self.staleness)] if self.staleness.updates else []
        return "".join(f", {remark}" for remark in remarks)

    @contextmanager
    def during(self, kind: str) -> Iterator[None]:
        """Counts the time of the block as spent in `kind`: "saving" or "waiting"."""
        began = self._clock()
        try:
            yield
        finally:
            with self._lock:
                self._spend(kind, self._clock() - began)

    def _spend(self, kind: str, seconds: float) -> None:
        self._seconds[kind] = round(self._seconds.get(kind, 0.0) + seconds, 3)

    def phase(
        self, phase: str, step: int | None = None, metrics: Mapping[str, float] | None = None
    ) -> None:
        """Records that a new phase begins, at global step `step` if that is known. metrics: results
        of the phase before."""
        with self._lock:
            now = self._clock()
            self._spend(self._phase, now - self._phase_began)
            self._phase, self._phase_began = phase, now
            self._step = self._step if step is None else step
            self._results = metrics or self._results
            if phase == "train":
                self._last_line = self._last_rate = now
        self._file.write(lambda: self.progress, force=True)
