"""Sums, means and norms of gradients, computed on the device of their variable.

Means are weighted by examples: with towers i of w_i examples and mean losses L_i, the gradient of
the mean loss over all examples is sum(w_i * grad L_i) / sum(w_i). Towers provide w_i * grad L_i.
Sparse gradients stay sparse: slices are concatenated, never made dense.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from psclust.replication.by_device import joined
from psclust.replication.device_layout import host_of
from psclust.replication.tf_types import Gradient, Tensor, Variable

GradientsAndVariables = Sequence[tuple[Gradient, Variable]]


def weighted_mean(
    towers: Sequence[GradientsAndVariables], examples: Tensor
) -> GradientsAndVariables:
    """The mean gradient of each variable over the towers, which have `examples`, int64 scalar,
    together.

    A tower that does not use a variable counts with a gradient of zero. Sums and quotients are on
    the variable's device, so a gradient travels once, directly to its ps.
    """
    with tf.device(examples.device):
        inverse = 1.0 / tf.cast(examples, tf.float64)
        dtypes = {variable.dtype.base_dtype for tower in towers for _, variable in tower}
        # Cast once, not for each variable on its ps.
        factors = {dtype: tf.cast(inverse, dtype) for dtype in dtypes}
    means = []
    for gradients, variable in _by_variable(towers):
        with tf.device(variable.device):
            means.append((scale(add(gradients), factors[variable.dtype.base_dtype]), variable))
    return means


def by_host(
    towers: Sequence[GradientsAndVariables], devices: Sequence[str]
) -> dict[str, GradientsAndVariables]:
    """host -> the sum of its towers' gradients, so that a host sends one gradient of each variable
    however many devices it has. `devices`: of the towers. Here a host is a task's CPU."""
    hosts: dict[str, list[GradientsAndVariables]] = {}
    for tower, device in zip(towers, devices, strict=True):
        hosts.setdefault(host_of(device), []).append(tower)
    sums: dict[str, GradientsAndVariables] = {}
    for host, group in hosts.items():
        with tf.device(host):
            sums[host] = summed(group) if len(group) > 1 else group[0]
    return sums


def summed(towers: Sequence[GradientsAndVariables]) -> GradientsAndVariables:
    """The sum of the towers' gradients of each variable, in the current device scope."""
    return [(add(gradients), variable) for gradients, variable in _by_variable(towers)]


def _by_variable(towers: Sequence[GradientsAndVariables]) -> list[tuple[list[Gradient], Variable]]:
    found: dict[Any, list[Gradient]] = {}
    for gradient, variable in (pair for tower in towers for pair in tower):
        found.setdefault(variable.ref(), []).append(gradient)
    return [(gradients, reference.deref()) for reference, gradients in found.items()]


def add(gradients: Sequence[Gradient]) -> Gradient:
    """The sum of gradients of one variable: IndexedSlices if all of them are, else a dense
    tensor."""
    if all(isinstance(gradient, tf.IndexedSlices) for gradient in gradients):
        if len(gradients) == 1:
            return gradients[0]
        values = tf.concat([gradient.values for gradient in gradients], 0)
        indices = tf.concat([gradient.indices for gradient in gradients], 0)
        return tf.IndexedSlices(values, indices, gradients[0].dense_shape)
    return tf.add_n([tf.convert_to_tensor(gradient) for gradient in gradients])


def scale(gradient: Gradient, factor: Tensor) -> Gradient:
    """`gradient * factor`, sparse if the gradient is."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(
            scale(gradient.values, factor), gradient.indices, gradient.dense_shape
        )
    return gradient * tf.cast(factor, gradient.dtype)


def present(gradient: Gradient, examples: Tensor) -> Gradient:
    """`gradient`, but IndexedSlices without rows if there are no `examples`. The gradient of
    padding is zero, but an optimizer with momentum would move its rows nevertheless."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    rows = tf.where(examples > 0, tf.shape(gradient.indices)[0], 0)
    return tf.IndexedSlices(gradient.values[:rows], gradient.indices[:rows], gradient.dense_shape)


def merged(gradient: Gradient) -> Gradient:
    """`gradient` with the slices of each row summed, as in a dense gradient."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    rows, position = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, position, tf.shape(rows)[0])
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


def decay(gradients: GradientsAndVariables, rate: float) -> GradientsAndVariables:
    """Adds `rate` times the variable to the gradients of variables with at least two dimensions:
    kernels and tables, not biases and scales. Of a sparse gradient, only its rows decay."""

    def decayed(gradient: Gradient, variable: Variable) -> Gradient:
        if variable.shape.rank < 2:
            return gradient
        with tf.device(variable.device):
            if isinstance(gradient, tf.IndexedSlices):
                gradient = merged(gradient)
                rows = tf.gather(variable, gradient.indices)
                return tf.IndexedSlices(
                    gradient.values + rate * rows, gradient.indices, gradient.dense_shape
                )
            return gradient + rate * variable.read_value()

    return [(decayed(gradient, variable), variable) for gradient, variable in gradients]


def clip(gradients: GradientsAndVariables, norm: float) -> GradientsAndVariables:
    """Scales the gradients down to the global `norm` if theirs is greater. Only one number for each
    ps travels between them."""
    single: list[tuple[Gradient, Variable]] = []
    squares: dict[str, list[Tensor]] = {}
    for gradient, variable in gradients:
        with tf.device(variable.device):
            single.append((merged(gradient), variable))
            values = single[-1][0].values if isinstance(gradient, tf.IndexedSlices) else gradient
            squares.setdefault(variable.device, []).append(
                tf.cast(tf.reduce_sum(tf.square(values)), tf.float32)
            )
    factor = norm / tf.maximum(tf.sqrt(tf.add_n(joined(squares, tf.add_n))), norm)
    clipped = []
    for gradient, variable in single:
        with tf.device(variable.device):
            clipped.append((scale(gradient, factor), variable))
    return clipped
