"""Small tensors that go from one device to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from psclust.replication.tf_types import Tensor


def joined(
    tensors: Mapping[str, Sequence[Tensor]], join: Callable[[Sequence[Tensor]], Tensor] = tf.stack
) -> list[Tensor]:
    """Those of each device, joined on it, to go in one message."""
    together = []
    for device, each in tensors.items():
        with tf.device(device):
            together.append(join(each))
    return together


def moved(tensor: Tensor, device: str) -> Tensor:
    """The same on another device."""
    with tf.device(device):
        return tf.identity(tensor)
