"""A variable comes back to its copies as the difference since it was last sent, rounded to int8.

Beside the variable, its ps keeps what the copies have, and adds to it what they add. The next difference then has what rounding took from
the one before, so a copy is never further from its variable than the rounding of one difference.
"""

from __future__ import annotations

import tensorflow as tf

from psclust.replication.tf_types import Operation, Tensor, Variable
from psclust.replication.wire import eight_bits


def keep_sent(variable: Variable, host: str) -> Variable:
    """Makes the variable's ps keep what the copies of the variable have on the task `host`, and on those that get the same."""
    task = tf.DeviceSpec.from_string(host)
    with tf.device(variable.device):
        return tf.compat.v1.Variable(
            variable.read_value,
            trainable=False,
            collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES],
            # The workers of a between-graph cluster share the ps.
            name=f"{variable.op.name}/sent_{task.job}_{task.task}",
            use_resource=True,
            dtype=variable.dtype.base_dtype,
        )


def start_of(sent: Variable) -> Tensor:
    """What the copies begin with: unrounded, because `narrow` casts nothing that has no device. An earlier session may have left another
    value in `sent`."""
    with tf.control_dependencies([sent.initializer]):
        return sent.read_value()


def difference(value: Tensor, sent: Variable) -> Tensor:
    """The message that tells the holders of `sent` of the new `value` of the variable."""
    with tf.device(sent.device):
        message, arriving = eight_bits.encode(value - sent.read_value())
        with tf.control_dependencies([sent.assign_add(arriving, read_value=False)]):
            return tf.identity(message)


def add(message: Tensor, copy: Variable) -> Operation:
    """Brings the copy up to date, in the current device scope and control dependencies."""
    return copy.assign_add(eight_bits.decode(message, copy.shape), read_value=False)
