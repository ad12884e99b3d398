"""Small tensors that go from one device to another in one message."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from psclust.replication.tf_types import Tensor


def joined(tensors: Mapping[str, Sequence[Tensor]], join: Callable[[Sequence[Tensor]], Tensor] = tf.stack) -> list[Tensor]:
    """Those of each device, joined on it."""
    together = []
    for device, each in tensors.items():
        with tf.device(device):
            together.append(join(each))
    return together
