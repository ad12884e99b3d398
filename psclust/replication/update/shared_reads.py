"""A scalar of an optimizer travels to another ps once a step. An optimizer reads it anew for every
variable that it updates, as Adam its powers of beta, and each read would be a message of its own:

    before   power on ps 0 --> update of v1 on ps 1
             power on ps 0 --> update of v2 on ps 1
    after    power on ps 0 --> ps 1 --+--> update of v1
                                      +--> update of v2
"""

from __future__ import annotations

import tensorflow as tf

from psclust.replication.tf_types import Operation, Tensor
from psclust.replication.wire.pulls import same_task


def share_reads(built: int) -> None:
    """Makes all ops on another task use the same value of a variable that they read under the same
    conditions. Leaves as they are the first `built` ops of the current graph, and those in loops
    and branches."""
    first: dict[tuple[str, frozenset[str]], Tensor] = {}
    for read in tf.compat.v1.get_default_graph().get_operations()[built:]:
        if read.type != "ReadVariableOp" or _inside(read):
            continue
        handle, value = read.inputs[0], read.outputs[0]
        shared = first.setdefault(
            (handle.name, frozenset(operation.name for operation in read.control_inputs)), value
        )
        for user in list(value.consumers()):
            if (
                shared is not value
                and not same_task(user.device, handle.device)
                and not _inside(user)
            ):
                for index in [index for index, used in enumerate(user.inputs) if used is value]:
                    # As in `pull_once`, there is no public call that replaces an input.
                    user._update_input(index, shared)


def _inside(operation: Operation) -> bool:
    return operation._get_control_flow_context() is not None
