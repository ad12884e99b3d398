"""A session hook that writes traces of chosen steps, op by op and device by device, for
chrome://tracing and Perfetto."""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path
from typing import Any

import tensorflow as tf

from psclust.replication.private_tensorflow import Timeline
from psclust.replication.tf_types import Session, Tensor

LOG = logging.getLogger(__name__)


class Profile(tf.compat.v1.train.SessionRunHook):
    """Writes `trace-<step>.json` into `directory` for each of `steps`, in Chrome's trace format.
    step: the global step that a run makes, a tensor. Tracing is on for these runs only, so the step
    before decides whether to trace one."""

    def __init__(self, step: Tensor, steps: Collection[int], directory: Path) -> None:
        self._step = step
        self._steps = frozenset(steps)
        self._directory = directory
        self._next: int | None = None

    def after_create_session(self, session: Session, coord: Any) -> None:
        self._next = None

    def before_run(self, run_context: Any) -> Any:
        # Before the first step, this process does not know the global step: trace.
        traced = self._next is None or self._next in self._steps
        full = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)
        return tf.compat.v1.train.SessionRunArgs(self._step, options=full if traced else None)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        step = int(run_values.results)
        self._next = step + 1
        if run_values.run_metadata is None or step not in self._steps:
            return
        trace = Timeline(run_values.run_metadata.step_stats).generate_chrome_trace_format()
        path = self._directory / f"trace-{step}.json"
        self._directory.mkdir(parents=True, exist_ok=True)
        path.write_text(trace, encoding="utf-8")
        LOG.info("step %d: wrote %s", step, path)
