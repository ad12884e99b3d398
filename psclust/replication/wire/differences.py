"""A variable comes back to its copies as the difference since it was last sent, rounded to int8.

Beside the variable, its ps keeps what the copies have, and adds to it what they add. The next
difference then has what rounding took from the one before, so a copy is never further from its
variable than the rounding of one difference.
"""

from __future__ import annotations

import tensorflow as tf

from psclust.replication.tf_types import Operation, Tensor, Variable
from psclust.replication.variables.cell import Cell, cell
from psclust.replication.wire import eight_bits


def keep_sent(variable: Variable, host: str | None) -> Variable:
    """Makes the variable's ps keep what the copies of the variable have on the task `host`, and on
    those that get the same. None: on all workers of a between-graph cluster; it is then in no
    collection, and `level` begins it."""
    # The workers of a between-graph cluster share the ps.
    task = tf.DeviceSpec.from_string(host) if host else None
    with tf.device(variable.device):
        return tf.compat.v1.Variable(
            variable.read_value,
            trainable=False,
            collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES] if task else [],
            name=f"{variable.op.name}/sent" + (f"_{task.job}_{task.task}" if task else ""),
            use_resource=True,
            dtype=variable.dtype.base_dtype,
        )


def start_of(sent: Variable) -> Tensor:
    """The first value of the copies: unrounded, because `narrow` casts nothing that has no device.
    An earlier session may have left another value in `sent`."""
    with tf.control_dependencies([sent.initializer]):
        return sent.read_value()


def level(variable: Variable, sent: Variable) -> Operation:
    """Takes it that the copies have the variable's value, and that the last difference was none."""
    with tf.device(sent.device):
        none = last_difference(sent).set(tf.zeros([eight_bits.message_bytes(sent.shape)], tf.int8))
        return tf.group(sent.assign(variable.read_value(), read_value=False), none)


def all_sent(sent: Variable) -> Tensor:
    """The value that all copies have, for any task."""
    with tf.device(sent.device):
        # `narrow` would round float32 on its way.
        bits = tf.bitcast(sent.read_value(), tf.int32)
    return tf.bitcast(bits, tf.float32)


def last_difference(sent: Variable) -> Cell:
    """Where the ps keeps the difference sent last, for workers of other graphs to read."""
    return cell(
        f"psclust/difference/{sent.op.name}",
        tf.int8,
        [eight_bits.message_bytes(sent.shape)],
        sent.device,
    )


def difference(value: Tensor, sent: Variable) -> Tensor:
    """The message that tells the holders of `sent` of the new `value` of the variable."""
    with tf.device(sent.device):
        message, known = eight_bits.encode_difference(value, sent.read_value())
        with tf.control_dependencies([sent.assign(known, read_value=False)]):
            return tf.identity(message)
