"""A session hook that writes what models summarize: one event folder a tower, the same tags in each, so that TensorBoard lays them over
each other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

# How a tower's ops are named: `tower_1/`, and `batch_1/` where batches are accumulated.
_PREFIX = re.compile(r"^(tower_\d+/)?(batch_\d+/)?")


class Summaries(tf.compat.v1.train.SessionRunHook):
    """Writes the summaries of every `every`-th step. `step`, `loss`: tensors of the step that a run leads to. towers: for each tower the
    tensors `tf.compat.v1.summary` functions returned in its model. Tower 0 writes into `directory`, tower i into `directory/tower_<i>`.
    staleness: of the step's update; None where there is none."""

    def __init__(self, step: Any, loss: Any, towers: Sequence[Sequence[Any]], every: int, directory: Path, staleness: Any = None) -> None:
        self._step = step
        self._merged = [tf.compat.v1.summary.merge(list(found)) if found else tf.constant(b"") for found in towers]
        self._scalars = {"loss": loss} | ({} if staleness is None else {"staleness": staleness})
        self._every = every
        self._folders = [directory / f"tower_{index}" if index else directory for index in range(len(towers))]
        self._writers: list[Any] = []
        self._due = 0

    def after_create_session(self, session: Any, coord: Any) -> None:
        if not self._writers:
            self._writers = [tf.compat.v1.summary.FileWriter(str(folder)) for folder in self._folders]
        self._due = 0

    def before_run(self, run_context: Any) -> Any:
        # The step is fetched with every run, because other replicas may advance it as well.
        wanted = {"step": self._step}
        if self._due <= 0:
            wanted |= {"summaries": self._merged, "scalars": self._scalars}
        return tf.compat.v1.train.SessionRunArgs(wanted)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        step = int(run_values.results["step"])
        if "summaries" in run_values.results:
            for writer, serialized in zip(self._writers, run_values.results["summaries"], strict=True):
                writer.add_summary(without_prefix(serialized), step)
            for name, value in run_values.results["scalars"].items():
                self._writers[0].add_summary(_scalar(name, float(value)), step)
            for writer in self._writers:
                writer.flush()
        self._due = self._every - step % self._every - 1

    def end(self, session: Any) -> None:
        for writer in self._writers:
            writer.close()


def without_prefix(serialized: bytes) -> Any:
    """The summary with the names of tower and batch taken off its tags."""
    summary = tf.compat.v1.Summary.FromString(serialized)
    for value in summary.value:
        value.tag = _PREFIX.sub("", value.tag)
    return summary


def _scalar(tag: str, value: float) -> Any:
    return tf.compat.v1.Summary(value=[tf.compat.v1.Summary.Value(tag=tag, simple_value=value)])
