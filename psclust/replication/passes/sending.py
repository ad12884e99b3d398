"""How the gradients of a worker leave for the ps."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from psclust.replication.device_layout import host_of
from psclust.replication.gradients import GradientsAndVariables, merged
from psclust.replication.passes.in_turn import Leaving, leave_in_turn
from psclust.replication.tf_types import Tensor, Variable
from psclust.replication.wire import eight_bits
from psclust.replication.wire.buckets import carry, is_small


def send_gradients(
    gradients: GradientsAndVariables, worker: str, wire_dtype: str, *, in_turn: bool = False
) -> GradientsAndVariables:
    """Sends gradients from the device `worker` to the ps of their variables, and returns them
    there: small ones of a ps in one message, large dense ones as int8 if `wire_dtype` is that. If
    it is not float32, each row of a sparse gradient is sent once. in_turn: large dense ones leave
    one after another. Gradients of variables in this process stay as they are."""
    groups: dict[tuple[str, Any], list[int]] = {}
    large: dict[int, Leaving] = {}
    sent = list(gradients)
    for index, (gradient, variable) in enumerate(gradients):
        if not variable.device.startswith("/job:"):
            continue
        if isinstance(gradient, tf.IndexedSlices) and wire_dtype != "float32":
            with tf.device(host_of(worker)):
                sent[index] = (merged(gradient), variable)
        elif is_small(gradient):
            groups.setdefault((variable.device, gradient.dtype), []).append(index)
        elif gradient.shape.is_fully_defined() and not isinstance(gradient, tf.IndexedSlices):
            large[index] = _leaving(gradient, variable, worker, wire_dtype)
    for (device, _), indices in groups.items():
        if len(indices) > 1:
            carried = carry([gradients[index][0] for index in indices], host_of(worker), device)
            for index, gradient in zip(indices, carried, strict=True):
                sent[index] = (gradient, gradients[index][1])
    arriving = (
        leave_in_turn(list(large.values()), worker)
        if in_turn
        else [one.packed(one.tensor) for one in large.values()]
    )
    for index, tensor in zip(large, arriving, strict=True):
        gradient, variable = gradients[index]
        if _is_rounded(gradient, variable, wire_dtype):
            with tf.device(variable.device):
                tensor = eight_bits.decode(tensor, gradient.shape)
        sent[index] = (tensor, variable)
    return sent


def _leaving(gradient: Tensor, variable: Variable, worker: str, wire_dtype: str) -> Leaving:
    """A large gradient as it leaves; `narrow` does the rest if it leaves as bfloat16."""
    if _is_rounded(gradient, variable, wire_dtype):
        length = eight_bits.message_bytes(gradient.shape)
        return Leaving(
            gradient,
            variable.device,
            length,
            lambda turned: eight_bits.encode_with_rest(turned, variable, worker),
        )
    halved = wire_dtype != "float32" and gradient.dtype == tf.float32
    return Leaving(
        gradient,
        variable.device,
        gradient.shape.num_elements() * gradient.dtype.size // (1 + halved),
    )


def _is_rounded(gradient: Tensor, variable: Variable, wire_dtype: str) -> bool:
    return wire_dtype == "int8" and bool(variable.trainable) and eight_bits.fits(gradient)
