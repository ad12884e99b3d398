"""Ops on a device, and small tensors that go from one to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from psclust.replication.tf_types import Tensor


def joined(
    tensors: Mapping[str, Sequence[Tensor]], join: Callable[[Sequence[Tensor]], Tensor] = tf.stack
) -> list[Tensor]:
    """Joins the tensors of each device on it, so that they travel in one message."""
    together = []
    for device, each in tensors.items():
        with tf.device(device):
            together.append(join(each))
    return together


def at(device: str, build: Callable[..., Any], *arguments: Any) -> Any:
    """Calls `build`, which creates ops, for `device`."""
    with tf.device(device):
        return build(*arguments)


def moved(tensor: Tensor, device: str) -> Tensor:
    """A copy of `tensor` on `device`."""
    return at(device, tf.identity, tensor)
