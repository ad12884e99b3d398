"""A session hook that writes the summaries of models: one event folder a tower, with the same tags,
so that TensorBoard overlays them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from psclust.replication.tf_types import Session, Tensor

# The scopes of a tower's ops: `tower_1/`, and `batch_1/` if batches are accumulated.
_PREFIX = re.compile(r"^(tower_\d+/)?(batch_\d+/)?")


class Summaries(tf.compat.v1.train.SessionRunHook):
    """Writes the summaries of every `every`-th step. step, loss, staleness: tensors of the step
    that a run makes; staleness None without other replicas. towers: for each tower, the tensors
    that `tf.compat.v1.summary` functions returned in its model. Tower 0 writes into `directory`,
    tower i into `directory/tower_<i>`."""

    def __init__(
        self,
        step: Tensor,
        loss: Tensor,
        towers: Sequence[Sequence[Tensor]],
        every: int,
        directory: Path,
        staleness: Tensor | None,
    ) -> None:
        self._step = step
        self._merged = [
            tf.compat.v1.summary.merge(list(found)) if found else tf.constant(b"")
            for found in towers
        ]
        self._scalars = {"loss": loss} | ({} if staleness is None else {"staleness": staleness})
        self._every = every
        self._folders = [
            directory / f"tower_{index}" if index else directory for index in range(len(towers))
        ]
        self._writers: list[Any] = []
        self._due = 0

    def after_create_session(self, session: Session, coord: Any) -> None:
        if not self._writers:
            self._writers = [
                tf.compat.v1.summary.FileWriter(str(folder)) for folder in self._folders
            ]
        self._due = 0

    def before_run(self, run_context: Any) -> Any:
        # The step is fetched with every run: other replicas may advance it as well.
        wanted = {"step": self._step}
        if self._due <= 0:
            wanted |= {"summaries": self._merged, "scalars": self._scalars}
        return tf.compat.v1.train.SessionRunArgs(wanted)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        step = int(run_values.results["step"])
        if "summaries" in run_values.results:
            for writer, serialized in zip(
                self._writers, run_values.results["summaries"], strict=True
            ):
                writer.add_summary(without_prefix(serialized), step)
            for name, value in run_values.results["scalars"].items():
                self._writers[0].add_summary(_scalar(name, float(value)), step)
            for writer in self._writers:
                writer.flush()
        self._due = self._every - step % self._every - 1

    def end(self, session: Session) -> None:
        for writer in self._writers:
            writer.close()


def without_prefix(serialized: bytes) -> Any:
    """The summary without the scopes of tower and batch in its tags."""
    summary = tf.compat.v1.Summary.FromString(serialized)
    for value in summary.value:
        value.tag = _PREFIX.sub("", value.tag)
    return summary


def _scalar(tag: str, value: float) -> Any:
    return tf.compat.v1.Summary(value=[tf.compat.v1.Summary.Value(tag=tag, simple_value=value)])
