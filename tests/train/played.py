"""A tally whose input is played by a test: every batch calls back when it is read, and may wait
there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import toys

import psclust
from psclust.testing.wait import PATIENCE_S


def played(
    play: Callable[[int, int], None],
    batches: Sequence[int],
    config: psclust.TrainConfig | None = None,
) -> psclust.Program:
    """Replica i reads `batches[i]` batches of i + 1 examples each, which all say i. `play(i, j)` is
    called when it reads batch j, and with the number of its batches when it finds the end."""

    def input_fn(shard: psclust.Shard) -> tf.data.Dataset:
        replica, count = shard.index, batches[shard.index]

        def read(index: Any) -> np.int64:
            play(replica, int(index))
            return np.int64(index)

        def called(index: Any) -> Any:
            return tf.ensure_shape(tf.compat.v1.py_func(read, [index], tf.int64), [])

        dataset = tf.data.Dataset.range(count + 1).map(called).filter(lambda index: index < count)
        options = tf.data.Options()
        # A batch is read when a step asks for it, not before.
        options.experimental_optimization.apply_default_optimizations = False
        return dataset.map(lambda index: tf.fill([replica + 1], replica)).with_options(options)

    return psclust.Program(
        toys._tally,
        input_fn,
        toys._sgd,
        params=toys.TALLY,
        input_on_client=True,
        config=config or psclust.TrainConfig(),
    )


class Stage:
    """How many batches each replica has begun to read."""

    def __init__(self) -> None:
        self._begun: dict[int, int] = {}
        self._changed = threading.Condition()

    def begin(self, replica: int) -> None:
        with self._changed:
            self._begun[replica] = self._begun.get(replica, 0) + 1
            self._changed.notify_all()

    def begun(self, replica: int) -> int:
        with self._changed:
            return self._begun.get(replica, 0)

    def await_begun(self, replica: int, batches: int) -> None:
        """Returns when `replica` has begun so many."""
        with self._changed:
            if not self._changed.wait_for(
                lambda: self._begun.get(replica, 0) >= batches, PATIENCE_S
            ):
                raise TimeoutError(
                    f"replica {replica} has begun {self._begun.get(replica, 0)} "
                    f"batches, not {batches}"
                )
