"""A worker's own copies of the variables it trains, so that both directions of the wire are used at once.

A model needs all its weights before it has a gradient, so a step that pulls what it computes from uses one direction of the wire at a time.
A step with copies computes from what the step before has left, and each variable comes back as soon as it is updated, while the gradients
of others still leave:

    without    | pull v1 v2 v3 | compute | push g3 g2 g1 |           with    | compute | push g3 g2 g1   |
                                                                             |         |   pull v3 v2 v1 |

The values are those that the next step would have pulled, unless other replicas update them in between, which makes an asynchronous update
a little more stale. Copies are local variables: every session begins by pulling them. With int8 on the wire, the differences of large ones
come back (see `differences`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from psclust.replication.device_layout import host_of
from psclust.replication.tf_types import Operation, Tensor, Variable
from psclust.replication.update.gradients import GradientsAndVariables
from psclust.replication.wire import differences, eight_bits
from psclust.replication.wire.buckets import carry, is_small
from psclust.replication.wire.pulls import same_task

# What a variable's handle may be used for, apart from the update, for a copy to do: to read it, and to initialize it.
_READ, _INITIALIZED = "ReadVariableOp", frozenset({"AssignVariableOp", "VarIsInitializedOp"})


@dataclass(frozen=True)
class LocalCopy:
    """The copy of `variable` on the device `host`, a task's CPU. read: the value that a step computes from. sent: what the copy has, on the
    ps; None if the whole value comes back. Copies that are refreshed together share it."""

    variable: Variable
    host: str
    copy: Variable
    read: Tensor
    sent: Variable | None = None


def copy_locally(
    gradients: Iterable[GradientsAndVariables], workers: Sequence[str], built: int, wire_dtype: str, *, together: bool
) -> Sequence[LocalCopy]:
    """Makes the towers on the devices `workers`, which have these `gradients`, compute from copies of their variables, one on each task.
    together: all copies of a variable are refreshed by the same op; otherwise those of each tower are.

    Leaves as they are the first `built` ops of the current graph, and variables that a step does not update as a whole or that the model
    uses otherwise than by reading them: with sparse gradients, gathered from, assigned to, read inside functions or after other ops.
    """
    variables = {variable.handle.op.name: variable for pairs in gradients for _, variable in pairs if hasattr(variable, "handle")}
    sparse = {v.handle.op.name for pairs in gradients for g, v in pairs if isinstance(g, tf.IndexedSlices) and hasattr(v, "handle")}
    new = {operation.name for operation in tf.compat.v1.get_default_graph().get_operations()[built:]}
    hosts = list(dict.fromkeys(host_of(worker) for worker in workers))
    # Towers that refresh the same copy, each when it likes, would add the same difference twice.
    rounded = wire_dtype == "int8" and (together or len(hosts) == len(workers))
    copies: list[LocalCopy] = []
    for name, variable in variables.items():
        uses = [operation for operation in variable.handle.consumers() if operation.name in new]
        if name in sparse or not all(_is_plain(operation, variable) for operation in uses):
            continue
        sent = None
        for host, users in _users(variable, [use.outputs[0] for use in uses if use.type == _READ], hosts).items():
            if rounded and eight_bits.fits(variable) and not is_small(variable) and (sent is None or not together):
                sent = differences.keep_sent(variable, host)
            copies.append(_copy(variable, host, sent))
            for user, index in users:
                # As in `pull_once`, there is no public call that replaces an input.
                user._update_input(index, copies[-1].read)
    return copies


def refresh(copies: Sequence[LocalCopy], built: int) -> dict[str, Operation]:
    """host -> the op that brings its copies up to date, each after the ops that update its variable; these are not among the first `built`
    of the current graph. Small variables of a ps travel in one message, when all of them have been updated."""
    new = {operation.name for operation in tf.compat.v1.get_default_graph().get_operations()[built:]}
    values: dict[Any, Tensor] = {}
    messages: dict[Any, Tensor] = {}
    groups: dict[tuple[str, str, Any], list[LocalCopy]] = {}
    assigned: dict[str, list[Operation]] = {}
    for copy in copies:
        variable, small = copy.variable, is_small(copy.read)
        if variable.ref() not in values:
            values[variable.ref()] = _updated(variable, new)
        key = (variable.device, copy.host, variable.dtype) if small else (variable.op.name, copy.host, None)
        groups.setdefault(key, []).append(copy)
    for (ps, host, _), together in groups.items():
        arrived = [values[copy.variable.ref()] for copy in together]
        if len(together) > 1:
            arrived = carry(arrived, ps, host)
        for copy, value in zip(together, arrived, strict=True):
            if copy.sent is not None and copy.sent.ref() not in messages:
                messages[copy.sent.ref()] = differences.difference(value, copy.sent)
            # Not before the step has read it.
            with tf.device(host), tf.control_dependencies([copy.read.op]):
                if copy.sent is not None:
                    kept = differences.add(messages[copy.sent.ref()], copy.copy)
                else:
                    kept = copy.copy.assign(value, read_value=False)
            assigned.setdefault(host, []).append(kept)
    return {host: _group(host, operations) for host, operations in assigned.items()}


def _group(host: str, operations: Sequence[Operation]) -> Operation:
    with tf.device(host):
        return tf.group(*operations, name="refreshed")


def _is_plain(use: Operation, variable: Variable) -> bool:
    if use.type == _READ:
        return not use.control_inputs
    return use.type in _INITIALIZED and (use.type != "AssignVariableOp" or use is variable.initializer)


def _users(variable: Variable, reads: Sequence[Tensor], hosts: Sequence[str]) -> dict[str, list[tuple[Operation, int]]]:
    """host -> the inputs in its task that are one of `reads`; without the variable's own task."""
    found: dict[str, list[tuple[Operation, int]]] = {}
    for value in reads:
        for user in value.consumers():
            for host in hosts:
                if same_task(user.device, host) and not same_task(host, variable.device):
                    found.setdefault(host, []).extend((user, i) for i, used in enumerate(user.inputs) if used is value)
    return found


def _copy(variable: Variable, host: str, sent: Variable | None) -> LocalCopy:
    with tf.device(host):
        copy = tf.compat.v1.Variable(
            variable.read_value if sent is None else lambda: differences.start_of(sent),
            trainable=False,
            collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES],
            name=f"{variable.op.name}/copy",
            use_resource=True,
            dtype=variable.dtype.base_dtype,
        )
        return LocalCopy(variable, host, copy, copy.read_value(), sent)


def writers(variable: Variable, new: set[str]) -> list[Operation]:
    """Those of the ops `new` that write to the variable."""
    return [operation for operation in variable.handle.consumers() if operation.name in new and operation.type != _READ]


def _updated(variable: Variable, new: set[str]) -> Tensor:
    """The value of the variable after its update."""
    with tf.device(variable.device), tf.control_dependencies(writers(variable, new)):
        return variable.read_value()
