"""Batch normalisation that knows about replicas: `psclust.batch_normalization`.

S. Ioffe and C. Szegedy, "Batch Normalization: Accelerating Deep Network Training by Reducing Internal Covariate Shift", 2015. TensorFlow
itself has none left for graphs: `tf.compat.v1.layers` went with Keras 3, whose own layer never updates its moving statistics there.

With moments shared by all replicas, batch sizes, means and variances are all-reduced, not sums of squares: the variance of
the whole is the mean of the variances plus the variance of the means (T. Chan, G. Golub and R. LeVeque, 1983), which loses no digits
where the mean is large. Backpropagation goes through the same all-reduce, so the gradient is that of the whole batch as well.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from psclust.errors import UsageError
from psclust.replication.towers.replica_context import AllReduce, Replica, Statistic, current_replica


def batch_normalization(
    x: Any,
    training: Any,
    *,
    axis: int = -1,
    momentum: float = 0.99,
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
    name: str | None = None,
) -> Any:
    """`x` normalized over all dimensions but `axis`, to `gamma * (x - mean) / sqrt(variance + epsilon) + beta`.

    In training (a bool, or a bool scalar tensor) mean and variance are those of the batch, otherwise the moving ones. What moves them
    goes to UPDATE_OPS, or with `TrainConfig.moving_statistics` mean or sync to psclust itself. Variables: gamma, beta (trained),
    moving_mean, moving_variance, each [x.shape[axis]] float32, in the variable scope `name` (default: batch_normalization).
    The variance is that of the batch as a population (divided by n). Raises UsageError where x has no static size along `axis`.
    """
    x = tf.convert_to_tensor(x)
    axes, shape = _axes(x, axis)
    with tf.compat.v1.variable_scope(name, default_name="batch_normalization"):
        moving_mean, moving_variance = _variable("moving_mean", shape, 0, False), _variable("moving_variance", shape, 1, False)
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
                mean, variance = tf.where(training, mean, moving_mean), tf.where(training, variance, moving_variance)
        wide = [x.shape[axis] if i not in axes else 1 for i in range(x.shape.rank)]
        mean, variance, gamma, beta = (None if v is None else tf.reshape(v, wide) for v in (mean, variance, gamma, beta))
        return tf.cast(tf.nn.batch_normalization(tf.cast(x, tf.float32), mean, variance, beta, gamma, epsilon), x.dtype)


def _axes(x: Any, axis: int) -> tuple[list[int], list[int]]:
    """The dimensions to average over, and the shape of the parameters."""
    if x.shape.rank is None or not -x.shape.rank <= axis < x.shape.rank or x.shape[axis] is None:
        raise UsageError(
            f"batch_normalization: the input of shape {x.shape} has no known size along axis {axis}; set its shape, or choose another axis"
        )
    return [i for i in range(x.shape.rank) if i != axis % x.shape.rank], [x.shape[axis]]


def _variable(name: str, shape: list[int], value: float, trainable: bool) -> Any:
    initializer = tf.compat.v1.constant_initializer(value)
    return tf.compat.v1.get_variable(name, shape, tf.float32, initializer, trainable=trainable, use_resource=True)


def _moments(x: Any, axes: list[int], replica: Replica | None) -> tuple[Any, Any]:
    """Mean and variance over `axes` of this replica's batch, or of all replicas' where they share."""
    mean, variance = tf.nn.moments(x, axes)
    if replica is None or replica.all_reduce is None:
        return mean, variance
    size = tf.cast(tf.size(x, tf.int64) // x.shape[next(i for i in range(x.shape.rank) if i not in axes)], tf.float32)
    return _combined(size * replica.present, mean, variance, replica.all_reduce)


def _combined(size: Any, mean: Any, variance: Any, all_reduce: AllReduce) -> tuple[Any, Any]:
    """Mean and variance of the union of all replicas' batches."""
    row = tf.stack([mean, variance, tf.fill(tf.shape(mean), size)])
    mine = tf.one_hot(all_reduce.index, all_reduce.replicas)[:, tf.newaxis, tf.newaxis]
    means, variances, sizes = tf.unstack(all_reduce.sum(mine * row), axis=1)
    # Where nobody has any data left, zeros go on through the model, not NaN.
    weights = sizes / tf.maximum(tf.reduce_sum(sizes, 0), 1.0)
    whole = tf.reduce_sum(weights * means, 0)
    return whole, tf.reduce_sum(weights * (variances + tf.math.squared_difference(means, whole)), 0)


def _keep(batch: tuple[Any, Any], moving: tuple[Any, Any], momentum: float, training: Any, replica: Replica | None) -> None:
    """Sees to it that the moving statistics move. A batch that only fills up, or one that is not for training, moves nothing."""
    for value, variable in zip(batch, moving, strict=True):
        value = tf.stop_gradient(value)
        if training is not True:
            value = tf.where(training, value, variable)
        if replica is not None and replica.moving != "first":
            replica.statistics.append(Statistic(variable, value, momentum))
            continue
        rate = 1 - momentum if replica is None else (1 - momentum) * replica.present
        tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.UPDATE_OPS, move(variable, value, rate))


def move(variable: Any, value: Any, rate: Any) -> Any:
    """The op that moves `variable` by `rate` of the way to `value`, where the variable is."""
    with tf.device(variable.device):
        return variable.assign_sub((variable.read_value() - value) * rate, read_value=False)
