"""The psclust program of `../loop.py`: its clients say how long they were between the runs of their session."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.client.session import BaseSession

import psclust

STEPS = 300
_WARM = 50
_LEAST_S = 1e-3  # of a step; what takes less counts as between steps
WIDTH, EXAMPLES = 640, 128


class _Runs:
    """The runs of the thread that steps."""

    def __init__(self) -> None:
        self._own = threading.local()

    def timed(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def called(session: Any, *arguments: Any) -> Any:
            began = time.perf_counter()
            try:
                return run(session, *arguments)
            finally:
                self._add(began, time.perf_counter())

        return called

    def _add(self, began: float, ended: float) -> None:
        steps = self._own.__dict__.setdefault("steps", [])
        if ended - began > _LEAST_S:
            steps.append((began, ended))
            if len(steps) == _WARM + STEPS:
                self._say(steps[_WARM:])

    def _say(self, steps: list[tuple[float, float]]) -> None:
        between = [began - ended for (_, ended), (began, _) in pairwise(steps)]
        whole = (steps[-1][0] - steps[0][0]) / len(between)
        print(f"{whole * 1e3:.3f} ms a step, {statistics.fmean(between) * 1e3:.4f} ms between runs", flush=True)


BaseSession._do_call = _Runs().timed(BaseSession._do_call)


def _model(features: Any, labels: Any) -> psclust.EstimatorSpec:
    x = features
    for index in range(3):
        x = tf.nn.relu(x @ tf.compat.v1.get_variable(f"kernel_{index}", [WIDTH, WIDTH]))
    return psclust.EstimatorSpec("train", loss=tf.reduce_mean((x - labels) ** 2))


def _dataset() -> Any:
    values = np.random.default_rng(1).random((EXAMPLES, WIDTH), np.float32)
    return tf.data.Dataset.from_tensors((values, values)).repeat()


program = psclust.Program(
    _model, _dataset, lambda: tf.compat.v1.train.GradientDescentOptimizer(1e-6), config=psclust.TrainConfig(save_seconds=None)
)
