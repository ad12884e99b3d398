"""Moving statistics of every tower's own, averaged over the towers every N updates
(`TrainConfig.statistics_every`).

They cross the wire only once in N updates, but towers drift apart in between. The variables and
checkpoints hold the last average; a lost worker loses its changes since then.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from psclust.replication.statistics.batch_norm import move
from psclust.replication.tf_types import Operation, Tensor, Variable
from psclust.replication.towers.replica_context import Statistic
from psclust.replication.towers.tower import Tower
from psclust.replication.variables.training_state import State


def move_own(
    towers: Sequence[Tower], workers: Sequence[str], state: State, every: int
) -> Sequence[Operation]:
    """The ops that move each tower's own statistics, and average them if the current step is a
    multiple of `every`."""
    copies = [
        [_copy(s, worker, index) for s in tower.statistics]
        for index, (tower, worker) in enumerate(zip(towers, workers, strict=True))
    ]
    moved = []
    for tower, own in zip(towers, copies, strict=True):
        examples = tower.input.examples
        for statistic, copy in zip(tower.statistics, own, strict=True):
            with tf.device(copy.device):
                value = statistic.value / tf.cast(tf.maximum(examples, 1), statistic.value.dtype)
                rate = (1 - statistic.momentum) * tf.cast(examples > 0, value.dtype)
            moved.append(move(copy, value, rate))
    with tf.control_dependencies(moved):
        due = tf.equal((state.global_step + 1) % every, 0)
        shared = [statistic.variable for statistic in towers[0].statistics]
        return [*moved, tf.cond(due, lambda: _average(shared, copies), lambda: tf.constant(False))]


def _copy(statistic: Statistic, worker: str, index: int) -> Variable:
    """A local variable on the worker, initialized in every session with the value that all towers
    share."""
    name = f"{statistic.variable.op.name}/tower_{index}"
    with tf.device(worker):
        return tf.compat.v1.Variable(
            statistic.variable.read_value,
            trainable=False,
            collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES],
            name=name,
            use_resource=True,
            dtype=statistic.variable.dtype.base_dtype,
        )


def _average(shared: Sequence[Variable], copies: Sequence[Sequence[Variable]]) -> Tensor:
    done = []
    for variable, own in zip(shared, zip(*copies, strict=True), strict=True):
        mean = tf.add_n([copy.read_value() for copy in own]) / len(own)
        done += [target.assign(mean, read_value=False) for target in (variable, *own)]
    with tf.control_dependencies(done):
        return tf.constant(True)
