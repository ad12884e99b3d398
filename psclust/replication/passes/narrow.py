"""Values travel in fewer bytes: float32 between workers and ps is cast to the dtype of the wire
where it leaves, and back where it arrives.

TensorFlow's `enable_bfloat16_sendrecv` casts once for each receiver, and casts all that a session
moves, so that checkpoints would be rounded as well.
"""

from __future__ import annotations

import tensorflow as tf

from psclust.replication.private_tensorflow import in_control_flow, replace_uses
from psclust.replication.tf_types import Operation, Tensor

# A cast costs more than the bytes of a scalar.
_RANK = 1


def narrow(wire_dtype: str) -> None:
    """Makes float32 values between a ps and another job travel as `wire_dtype`.
    What loops and branches do inside stays as it is. With int8, what `eight_bits` has not encoded
    travels as bfloat16."""
    if wire_dtype == "float32":
        return
    if wire_dtype == "int8":
        wire_dtype = "bfloat16"
    for operation in tf.compat.v1.get_default_graph().get_operations():
        for value in operation.outputs:
            travels = value.dtype == tf.float32 and (
                value.shape.rank is None or value.shape.rank >= _RANK
            )
            if travels and not in_control_flow(operation):
                _cast_on_its_way(value, wire_dtype)


def _cast_on_its_way(value: Tensor, wire_dtype: str) -> None:
    arrivals: dict[str, list[Operation]] = {}
    source = place_of(value.op)
    for user in value.consumers():
        target = place_of(user)
        if is_crossing(source, target) and not in_control_flow(user):
            arrivals.setdefault(target, []).append(user)
    if not arrivals:
        return
    with tf.device(source):
        leaving = tf.cast(value, wire_dtype, name="leaving")
    for device, users in arrivals.items():
        with tf.device(device):
            arrived = tf.cast(leaving, tf.float32, name="arrived")
        replace_uses(value, arrived, users)


def place_of(operation: Operation) -> str:
    """Where TensorFlow places the op: what reads, gathers from or writes to a variable is placed
    there, whatever its device."""
    handle = next((value for value in operation.inputs if value.dtype == tf.resource), None)
    return str(operation.device if handle is None else handle.device or operation.device)


def is_crossing(source: str, target: str) -> bool:
    """Whether one of the devices is a ps, and the other is of another job. Initial values have no
    device."""
    jobs = {tf.DeviceSpec.from_string(device).job for device in (source, target)}
    return len(jobs) == 2 and "ps" in jobs and None not in jobs
