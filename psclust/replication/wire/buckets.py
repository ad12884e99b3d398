"""Small tensors travel in one message: biases and scales are many, and what a message costs hardly depends on its size. As gradient
buckets do it elsewhere, but for what is pulled as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from psclust.replication.device_layout import host_of
from psclust.replication.update.gradients import GradientsAndVariables

# Below it, copying costs less than a message of its own.
SMALL_BYTES = 32 * 1024


def is_small(tensor: Any) -> bool:
    """Whether `tensor` goes into a bucket: dense, of a known shape, and small."""
    if isinstance(tensor, tf.IndexedSlices) or not tensor.shape.is_fully_defined():
        return False
    return bool(tensor.shape.num_elements() * tensor.dtype.size <= SMALL_BYTES)


def carry(tensors: Sequence[Any], source: str, target: str) -> list[Any]:
    """The same `tensors`, small ones of one type, on device `target`, sent from device `source` in one message."""
    with tf.device(source):
        bucket = tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0, name="bucket")
    with tf.device(target):
        parts = tf.split(bucket, [tensor.shape.num_elements() for tensor in tensors])
        return [tf.reshape(part, tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]


def send_gradients(gradients: GradientsAndVariables, worker: str) -> GradientsAndVariables:
    """The gradients of one `worker`, its device, with the small ones of each ps in one message there. Those of variables in this process
    stay as they are."""
    groups: dict[tuple[str, Any], list[int]] = {}
    for index, (gradient, variable) in enumerate(gradients):
        if variable.device.startswith("/job:") and is_small(gradient):
            groups.setdefault((variable.device, gradient.dtype), []).append(index)
    sent = list(gradients)
    for (device, _), indices in groups.items():
        if len(indices) > 1:
            carried = carry([gradients[index][0] for index in indices], host_of(worker), device)
            for index, gradient in zip(indices, carried, strict=True):
                sent[index] = (gradient, gradients[index][1])
    return sent
