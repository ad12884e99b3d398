"""The progress file: where a launcher reads how far a task is. Telling must never stop the training, so a full disk is ignored."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

_INTERVAL_S = 0.5


@dataclass(frozen=True, slots=True)
class Progress:
    """step: global step. examples_per_s: of this task. phase: what it is doing: start, train, evaluate, done."""

    step: int = 0
    loss: float | None = None
    examples_per_s: float | None = None
    phase: str = "start"
    metrics: Mapping[str, float] = field(default_factory=dict)


class ProgressFile:
    """Replaces the JSON file at `path` (None: nothing is written) at most twice a second."""

    def __init__(self, path: Path | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._next = 0.0

    def write(self, progress: Progress, *, force: bool = False) -> None:
        now = self._clock()
        if self._path is None or (now < self._next and not force):
            return
        self._next = now + _INTERVAL_S
        aside = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            aside.write_text(json.dumps(asdict(progress)), encoding="utf-8")
            aside.replace(self._path)
        except OSError:
            with contextlib.suppress(OSError):
                aside.unlink()
