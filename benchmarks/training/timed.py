"""The psclust program of `../loop.py`: its clients say how long no run of their session was under
way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
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
    """By which a client steps: of its own thread, and of those that begin one while another is
    under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: list[tuple[float, float]] = []

    def timed(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def called(session: Any, *arguments: Any) -> Any:
            began = time.perf_counter()
            try:
                return run(session, *arguments)
            finally:
                self._add(began, time.perf_counter())

        return called

    def _add(self, began: float, ended: float) -> None:
        if ended - began <= _LEAST_S or not threading.current_thread().name.startswith(
            ("MainThread", "step_")
        ):
            return
        with self._lock:
            self._steps.append((began, ended))
            if len(self._steps) == _WARM + STEPS:
                self._say(sorted(self._steps[_WARM:]))

    def _say(self, steps: list[tuple[float, float]]) -> None:
        between, under_way_to = 0.0, steps[0][1]
        for began, ended in steps[1:]:
            between += max(0.0, began - under_way_to)
            under_way_to = max(under_way_to, ended)
        count = len(steps) - 1
        print(
            f"{(steps[-1][0] - steps[0][0]) / count * 1e3:.3f} ms a step, "
            f"{between / count * 1e3:.4f} ms between runs",
            flush=True,
        )


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
    _model,
    _dataset,
    lambda: tf.compat.v1.train.GradientDescentOptimizer(1e-6),
    config=psclust.TrainConfig(save_seconds=None),
)
