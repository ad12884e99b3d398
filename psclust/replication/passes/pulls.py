"""A worker pulls each variable once a step, however many towers use it and how often, and
the small ones of a ps in one message.

TensorFlow reads a resource variable again for every use in a model, and each read travels to each
device in its own message:

    before   v on a ps --> tower 0          after   v on a ps --> worker's CPU --+--> tower 0
             v on a ps --> tower 0                                               +--> tower 1
             v on a ps --> tower 1

Rows that `tf.gather` or `embedding_lookup` take from a variable are no reads of it: they travel for
each use. Where bytes are to be saved, a row travels once, however often its id is in the batch.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from psclust.replication.device_layout import host_of
from psclust.replication.private_tensorflow import in_control_flow, replace_uses
from psclust.replication.tf_types import Operation, Tensor
from psclust.replication.wire.buckets import carry, is_small

# What is added to the name of the model's gather for the op that gathers each row once.
OF_DISTINCT = "of_distinct"


def pull_once(wire_dtype: str) -> None:
    """Makes all ops of a worker use the same pulled value of a variable, kept on its CPU if
    several of its devices use it. Unless `wire_dtype` is float32, a row that is gathered travels
    once, too.

    Leaves as they are reads that wait for another op (such as an assignment in the model), reads
    inside functions, and reads on the variable's own ps.
    """
    uses: dict[tuple[str, str], list[tuple[Tensor, Operation]]] = {}
    for read in tf.compat.v1.get_default_graph().get_operations():
        if read.type != "ReadVariableOp" or read.control_inputs:
            continue
        value, handle = read.outputs[0], read.inputs[0].op
        for user in value.consumers():
            key = (handle.name, host_of(user.device))
            if not same_task(user.device, handle.device):
                uses.setdefault(key, []).append((value, user))
    if wire_dtype != "float32":
        # To find the distinct ids makes a step on one machine 5 to 15 % longer. It pays where bytes
        # count and ids repeat.
        _pull_rows_once()
    pulled = _in_buckets({key: value for key, [(value, _), *_] in uses.items()})
    for key, found in uses.items():
        if key not in pulled and (
            len({value.name for value, _ in found}) > 1
            or len({user.device for _, user in found}) > 1
        ):
            with tf.device(key[1]):
                pulled[key] = tf.identity(found[0][0], name="pulled")
        for value, user in found if key in pulled else ():
            replace_uses(value, pulled[key], [user])


def _pull_rows_once() -> None:
    """Makes each gather from a variable on a ps send a row once, and repeats it where it
    arrives."""
    for gather in tf.compat.v1.get_default_graph().get_operations():
        if (
            gather.type != "ResourceGather"
            or gather.control_inputs
            or gather.get_attr("batch_dims")
        ):
            continue
        (handle, ids), value = gather.inputs, gather.outputs[0]
        users = value.consumers()
        hosts = {host_of(user.device) for user in users}
        host = next(iter(hosts), "")
        # A loop or branch may have the gather or one of its users.
        inside = any(in_control_flow(operation) for operation in (gather, *users))
        if len(hosts) != 1 or not host or same_task(host, handle.device) or inside:
            continue
        with tf.device(host):
            distinct, position = tf.unique(tf.reshape(ids, [-1]))
        with tf.device(handle.device):
            rows = tf.raw_ops.ResourceGather(
                resource=handle,
                indices=distinct,
                dtype=value.dtype,
                name=f"{gather.name}/{OF_DISTINCT}",
            )
        with tf.device(host):
            repeated = tf.reshape(
                tf.gather(rows, position), tf.concat([tf.shape(ids), tf.shape(rows)[1:]], 0)
            )
        replace_uses(value, repeated, users)


def _in_buckets(reads: dict[tuple[str, str], Tensor]) -> dict[tuple[str, str], Tensor]:
    """(variable, host) -> the value that arrives at the host in a bucket, for those of `reads` that
    travel in one."""
    groups: dict[tuple[str, str, Any], list[tuple[str, str]]] = {}
    for (variable, host), read in reads.items():
        if is_small(read):
            groups.setdefault((read.op.inputs[0].op.device, host, read.dtype), []).append(
                (variable, host)
            )
    pulled: dict[tuple[str, str], Tensor] = {}
    for (ps, host, _), keys in groups.items():
        if len(keys) > 1:
            pulled |= zip(keys, carry([reads[key] for key in keys], ps, host), strict=True)
    return pulled


def same_task(device: str, other: str) -> bool:
    one, two = tf.DeviceSpec.from_string(device), tf.DeviceSpec.from_string(other)
    return (one.job, one.task) == (two.job, two.task)
