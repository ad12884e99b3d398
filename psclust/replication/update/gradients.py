"""Combining the gradients of several towers into one, where the variable lives.

The mean is weighted by examples: with towers i of w_i examples and mean losses L_i, the gradient of the mean loss over all examples is
sum(w_i * grad L_i) / sum(w_i). Towers hand in w_i * grad L_i. Sparse gradients stay sparse: slices are concatenated, never made dense.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from psclust.replication.device_layout import host_of

GradientsAndVariables = Sequence[tuple[Any, Any]]


def weighted_mean(towers: Sequence[GradientsAndVariables], examples: Any) -> GradientsAndVariables:
    """One (gradient, variable) pair for each variable from one list of pairs a tower; `examples`, int64 scalar, is how many all have.

    A variable that a tower does not use counts as a gradient of zero there. Sums and quotients sit on the variable's device, so a
    gradient travels once, straight to its ps.
    """
    parts: dict[Any, list[Any]] = {}
    variables: dict[Any, Any] = {}
    for tower in towers:
        for gradient, variable in tower:
            parts.setdefault(variable.ref(), []).append(gradient)
            variables[variable.ref()] = variable
    with tf.device(examples.device):
        inverse = 1.0 / tf.cast(examples, tf.float64)
    means = []
    for reference, gradients in parts.items():
        variable = variables[reference]
        with tf.device(variable.device):
            means.append((scale(add(gradients), inverse), variable))
    return means


def by_host(towers: Sequence[GradientsAndVariables], devices: Sequence[str]) -> dict[str, GradientsAndVariables]:
    """host -> the gradients of its towers, summed there, so that a host sends one for each variable, whatever the number of its `devices`;
    those are the towers'."""
    hosts: dict[str, list[GradientsAndVariables]] = {}
    for tower, device in zip(towers, devices, strict=True):
        hosts.setdefault(host_of(device), []).append(tower)
    sums: dict[str, GradientsAndVariables] = {}
    for host, group in hosts.items():
        with tf.device(host):
            sums[host] = summed(group) if len(group) > 1 else group[0]
    return sums


def summed(towers: Sequence[GradientsAndVariables]) -> GradientsAndVariables:
    """The sum for each variable that any of them has a gradient of, in the current device scope."""
    parts: dict[Any, list[Any]] = {}
    for gradient, variable in (pair for tower in towers for pair in tower):
        parts.setdefault(variable.ref(), []).append(gradient)
    return [(add(gradients), reference.deref()) for reference, gradients in parts.items()]


def add(gradients: Sequence[Any]) -> Any:
    """The sum of gradients of one variable: IndexedSlices if all are, else a dense tensor."""
    if all(isinstance(gradient, tf.IndexedSlices) for gradient in gradients):
        if len(gradients) == 1:
            return gradients[0]
        values = tf.concat([gradient.values for gradient in gradients], 0)
        indices = tf.concat([gradient.indices for gradient in gradients], 0)
        return tf.IndexedSlices(values, indices, gradients[0].dense_shape)
    return tf.add_n([tf.convert_to_tensor(gradient) for gradient in gradients])


def scale(gradient: Any, factor: Any) -> Any:
    """`gradient * factor`, sparse if the gradient is."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(scale(gradient.values, factor), gradient.indices, gradient.dense_shape)
    return gradient * tf.cast(factor, gradient.dtype)


def present(gradient: Any, examples: Any) -> Any:
    """`gradient`; of IndexedSlices no row where there are no `examples`. A batch that only fills up has a gradient of zero, but even
    zeros touch the rows they are for: an optimizer with momentum moves them."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    rows = tf.where(examples > 0, tf.shape(gradient.indices)[0], 0)
    return tf.IndexedSlices(gradient.values[:rows], gradient.indices[:rows], gradient.dense_shape)


def merged(gradient: Any) -> Any:
    """`gradient` with every row of IndexedSlices once: slices of the same row are summed, as a dense gradient would have them."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    rows, position = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, position, tf.shape(rows)[0])
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


def decay(gradients: GradientsAndVariables, rate: float) -> GradientsAndVariables:
    """The gradients with `rate` times the variable added, for variables of at least two dimensions: kernels and tables, not biases and
    scales. A sparse gradient stays sparse: only the rows it has decay."""

    def decayed(gradient: Any, variable: Any) -> Any:
        if variable.shape.rank < 2:
            return gradient
        with tf.device(variable.device):
            if isinstance(gradient, tf.IndexedSlices):
                gradient = merged(gradient)
                rows = tf.gather(variable, gradient.indices)
                return tf.IndexedSlices(gradient.values + rate * rows, gradient.indices, gradient.dense_shape)
            return gradient + rate * variable.read_value()

    return [(decayed(gradient, variable), variable) for gradient, variable in gradients]


def clip(gradients: GradientsAndVariables, norm: float) -> GradientsAndVariables:
    """The gradients scaled down to the global `norm` where theirs is greater. What travels between ps tasks is one number a variable."""
    single = []
    for gradient, variable in gradients:
        with tf.device(variable.device):
            single.append((merged(gradient), variable))
    squares = []
    for gradient, variable in single:
        values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        with tf.device(variable.device):
            squares.append(tf.cast(tf.reduce_sum(tf.square(values)), tf.float32))
    factor = norm / tf.maximum(tf.sqrt(tf.add_n(squares)), norm)
    clipped = []
    for gradient, variable in single:
        with tf.device(variable.device):
            clipped.append((scale(gradient, factor), variable))
    return clipped
