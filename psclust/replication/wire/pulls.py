"""Each worker pulls a variable from its ps once a step, however many towers it has and however often they use the variable, and the small
ones of a ps in one message.

TensorFlow reads a resource variable anew wherever a model uses it, and each read travels by itself, to every device apart.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from psclust.replication.device_layout import host_of
from psclust.replication.wire.buckets import carry, is_small


def pull_once(built: int) -> None:
    """Lets all that a worker computes from a variable use one value of it, which is kept on the worker's CPU where it has several devices.

    Of the current graph, whose first `built` ops are left as they are. A read that waits for something, such as an assignment in the
    model, stays what it is; so does one in a function, and what a ps computes from its own variables.
    """
    reads: dict[tuple[str, str], list[Any]] = {}
    users: dict[tuple[str, str], list[tuple[Any, int]]] = {}
    for read in tf.compat.v1.get_default_graph().get_operations()[built:]:
        if read.type != "ReadVariableOp" or read.control_inputs:
            continue
        value, handle = read.outputs[0], read.inputs[0].op
        for user in value.consumers():
            key = (handle.name, host_of(user.device))
            if not _same_task(user.device, handle.device):
                reads.setdefault(key, []).append(value)
                users.setdefault(key, []).extend((user, index) for index, used in enumerate(user.inputs) if used is value)
    pulled = _in_buckets({key: values[0] for key, values in reads.items()})
    for key, values in reads.items():
        if key not in pulled and (len({value.name for value in values}) > 1 or len({user.device for user, _ in users[key]}) > 1):
            with tf.device(key[1]):
                pulled[key] = tf.identity(values[0], name="pulled")
        for user, index in users[key] if key in pulled else ():
            # As in `InGraphAllReduce.connect`: what is there already gets another input.
            user._update_input(index, pulled[key])


def _in_buckets(reads: dict[tuple[str, str], Any]) -> dict[tuple[str, str], Any]:
    """The reads of `reads`, by variable and host, that travel with others, as they arrive at the host."""
    groups: dict[tuple[str, str, Any], list[tuple[str, str]]] = {}
    for (variable, host), read in reads.items():
        if is_small(read):
            groups.setdefault((read.op.inputs[0].op.device, host, read.dtype), []).append((variable, host))
    pulled: dict[tuple[str, str], Any] = {}
    for (ps, host, _), keys in groups.items():
        if len(keys) > 1:
            pulled |= zip(keys, carry([reads[key] for key in keys], ps, host), strict=True)
    return pulled


def _same_task(device: str, other: str) -> bool:
    one, two = tf.DeviceSpec.from_string(device), tf.DeviceSpec.from_string(other)
    return (one.job, one.task) == (two.job, two.task)
