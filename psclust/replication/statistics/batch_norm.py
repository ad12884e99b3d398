"""Batch normalization over replicas: `psclust.batch_normalization`.

S. Ioffe and C. Szegedy, "Batch Normalization: Accelerating Deep Network Training by Reducing
Internal Covariate Shift", 2015. TensorFlow has no layer for graphs any more: Keras 3 removed
`tf.compat.v1.layers`, and its own layer never updates moving statistics in a graph.

If replicas share moments, they all-reduce batch sizes, means and variances instead of sums of
squares: the variance of the global batch is the mean of the variances plus the variance of the
means (T. Chan, G. Golub and R. LeVeque, 1983), which keeps its precision if the mean is large.
Backpropagation goes through the all-reduce too, so the gradient is that of the global batch.
"""

from __future__ import annotations

import tensorflow as tf

from psclust.errors import UsageError
from psclust.replication.tf_types import Operation, Tensor, Variable
from psclust.replication.towers.replica_context import Replica, Statistic, current_replica
from psclust.replication.towers.tower_all_reduce import AllReduce


def batch_normalization(
    x: Tensor,
    training: bool | Tensor,
    *,
    axis: int = -1,
    momentum: float = 0.99,
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
    name: str | None = None,
) -> Tensor:
    """`x` normalized over all dimensions but `axis`, to `gamma * (x - mean) / sqrt(variance +
    epsilon) + beta`.

    `training`, a bool or a bool scalar tensor, selects mean and variance of the batch, otherwise
    the moving ones. The ops that move these are in UPDATE_OPS, or run by psclust if
    `TrainConfig.moving_statistics` is mean or sync. Variables: gamma, beta (trained), moving_mean,
    moving_variance, each [x.shape[axis]] float32, in the variable scope `name` (default:
    batch_normalization). The variance is the population variance (divided by n). Raises UsageError
    if x has no static size along `axis`.
    """
    x = tf.convert_to_tensor(x)
    axes, shape = _axes(x, axis)
    with tf.compat.v1.variable_scope(name, default_name="batch_normalization"):
        moving_mean, moving_variance = (
            _variable("moving_mean", shape, 0, False),
            _variable("moving_variance", shape, 1, False),
        )
        gamma = _variable("gamma", shape, 1, True) if scale else None
        beta = _variable("beta", shape, 0, True) if center else None
        if training is False:
            mean, variance = moving_mean, moving_variance
        else:
            replica = current_replica()
            batch = _moments(tf.cast(x, tf.float32), axes, replica)
            _keep(batch, (moving_mean, moving_variance), momentum, training, replica)
            mean, variance = batch
            if training is not True:
                mean, variance = (
                    tf.where(training, mean, moving_mean),
                    tf.where(training, variance, moving_variance),
                )
        wide = [x.shape[axis] if i not in axes else 1 for i in range(x.shape.rank)]
        mean, variance, gamma, beta = (
            None if v is None else tf.reshape(v, wide) for v in (mean, variance, gamma, beta)
        )
        return tf.cast(
            tf.nn.batch_normalization(tf.cast(x, tf.float32), mean, variance, beta, gamma, epsilon),
            x.dtype,
        )


def _axes(x: Tensor, axis: int) -> tuple[list[int], list[int]]:
    """The dimensions to average over, and the shape of the parameters."""
    if x.shape.rank is None or not -x.shape.rank <= axis < x.shape.rank or x.shape[axis] is None:
        raise UsageError(
            f"batch_normalization: the input of shape {x.shape} has no known size along axis "
            f"{axis}; set its shape, or choose another axis"
        )
    return [i for i in range(x.shape.rank) if i != axis % x.shape.rank], [x.shape[axis]]


def _variable(name: str, shape: list[int], value: float, trainable: bool) -> Variable:
    initializer = tf.compat.v1.constant_initializer(value)
    return tf.compat.v1.get_variable(
        name, shape, tf.float32, initializer, trainable=trainable, use_resource=True
    )


def _moments(x: Tensor, axes: list[int], replica: Replica | None) -> tuple[Tensor, Tensor]:
    """Mean and variance over `axes` of this replica's batch, or of the global batch if replicas
    share moments."""
    mean, variance = tf.nn.moments(x, axes)
    if replica is None or replica.all_reduce is None:
        return mean, variance
    size = tf.cast(
        tf.size(x, tf.int64) // x.shape[next(i for i in range(x.shape.rank) if i not in axes)],
        tf.float32,
    )
    return _combined(size * replica.present, mean, variance, replica.all_reduce)


def _combined(
    size: Tensor, mean: Tensor, variance: Tensor, all_reduce: AllReduce
) -> tuple[Tensor, Tensor]:
    """Mean and variance of the union of all replicas' batches."""
    row = tf.stack([mean, variance, tf.fill(tf.shape(mean), size)])
    mine = tf.one_hot(all_reduce.index, all_reduce.replicas)[:, tf.newaxis, tf.newaxis]
    means, variances, sizes = tf.unstack(all_reduce.sum(mine * row), axis=1)
    # If all batches are padding, zeros go on through the model instead of NaN.
    weights = sizes / tf.maximum(tf.reduce_sum(sizes, 0), 1.0)
    whole = tf.reduce_sum(weights * means, 0)
    return whole, tf.reduce_sum(weights * (variances + tf.math.squared_difference(means, whole)), 0)


def _keep(
    batch: tuple[Tensor, Tensor],
    moving: tuple[Variable, Variable],
    momentum: float,
    training: bool | Tensor,
    replica: Replica | None,
) -> None:
    """Has the moving statistics moved, unless the batch is padding or not for training."""
    for value, variable in zip(batch, moving, strict=True):
        value = tf.stop_gradient(value)
        if training is not True:
            value = tf.where(training, value, variable)
        if replica is not None and replica.moving != "first":
            replica.statistics.append(Statistic(variable, value, momentum))
            continue
        rate = 1 - momentum if replica is None else (1 - momentum) * replica.present
        tf.compat.v1.add_to_collection(
            tf.compat.v1.GraphKeys.UPDATE_OPS, move(variable, value, rate)
        )


def move(variable: Variable, value: Tensor, rate: float | Tensor) -> Operation:
    """The op that moves `variable` by `rate` of the way to `value`, on the variable's device."""
    with tf.device(variable.device):
        return variable.assign_sub((variable.read_value() - value) * rate, read_value=False)
