"""A worker's own copies of the variables it trains, so that both directions of the wire are used at once.

A model needs all its weights before it has a gradient, so a step that pulls what it computes from uses one direction of the wire at a time.
A step with copies computes from what the step before has left, and each variable comes back as soon as it is updated, while the gradients
of others still leave:

    without    | pull v1 v2 v3 | compute | push g3 g2 g1 |           with    | compute | push g3 g2 g1   |
                                                                             |         |   pull v3 v2 v1 |

The values are those that the next step would have pulled, unless other replicas update them in between, which makes an asynchronous update
a little more stale. Copies are local variables: every session begins by pulling them, but a synchronous between-graph worker when it may
begin. With int8 on the wire, the differences of large ones come back (see `differences`).
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
    gradients: Iterable[GradientsAndVariables],
    workers: Sequence[str],
    built: int,
    wire_dtype: str,
    *,
    together: bool,
    of_session: bool = True,
) -> Sequence[LocalCopy]:
    """Makes the towers on the devices `workers`, which have these `gradients`, compute from copies of their variables, one on each task.
    together: all copies of a variable are refreshed by the same op; otherwise those of each tower are.

    Leaves as they are the first `built` ops of the current graph, and variables that a step does not update as a whole or that the model
    uses otherwise than by reading them: with sparse gradients, gathered from, assigned to, read inside functions or after other ops.
    of_session: the session's start pulls them; otherwise `pull` has to, and the copies of all workers are refreshed together.
    """
    hosts = _hosts(workers)
    # Towers that refresh the same copy, each when it likes, would add the same difference twice.
    rounded = wire_dtype == "int8" and (together or len(hosts) == len(workers))
    copies: list[LocalCopy] = []
    for variable, reads in _plainly_read(gradients, built):
        sent = None
        for host, users in _users(variable, reads, hosts).items():
            if rounded and eight_bits.fits(variable) and not is_small(variable) and (sent is None or not together):
                sent = differences.keep_sent(variable, host if of_session else None)
            copies.append(_copy(variable, host, sent, of_session=of_session))
            for user, index in users:
                # As in `pull_once`, there is no public call that replaces an input.
                user._update_input(index, copies[-1].read)
    return copies


def can_copy_all(gradients: GradientsAndVariables, workers: Iterable[str], built: int) -> bool:
    """Whether `copy_locally` would give the towers a copy of every variable in `gradients`, so that nothing else reads one."""
    hosts, plain = _hosts(workers), _plainly_read([gradients], built)
    users = [user for _, reads in plain for value in reads for user in value.consumers()]
    return len(plain) == len(gradients) and all(any(same_task(user.device, host) for host in hosts) for user in users)


def refresh(copies: Sequence[LocalCopy], built: int) -> dict[str, Operation]:
    """host -> the op that brings its copies up to date, each after the ops that update its variable; these are not among the first `built`
    of the current graph. Small variables of a ps travel in one message, when all of them have been updated."""
    new = {operation.name for operation in tf.compat.v1.get_default_graph().get_operations()[built:]}
    values: dict[Any, Tensor] = {}
    messages: dict[Any, Tensor] = {}
    for copy in copies:
        if copy.variable.ref() not in values:
            values[copy.variable.ref()] = _updated(copy.variable, new)
        if copy.sent is not None and copy.sent.ref() not in messages:
            messages[copy.sent.ref()] = differences.difference(values[copy.variable.ref()], copy.sent)
    assigned: dict[str, list[Operation]] = {}
    for group in groups_of(copies):
        arriving = [messages[c.sent.ref()] if c.sent is not None else values[c.variable.ref()] for c in group]
        assigned.setdefault(group[0].host, []).extend(bring(group, arriving, after_use=True))
    return {host: _group(host, operations) for host, operations in assigned.items()}


def pull(copies: Sequence[LocalCopy]) -> Operation:
    """The op that brings all `copies`, which are on one host, up to date at once; not for a step that uses them."""
    pulled = []
    for group in groups_of([copy for copy in copies if copy.sent is None]):
        pulled += bring(group, [_updated(copy.variable, set()) for copy in group], after_use=False)
    for copy in copies:
        if copy.sent is not None:
            with tf.device(copy.host):
                pulled.append(copy.copy.assign(differences.all_sent(copy.sent), read_value=False))
    return tf.group(*pulled, name="pulled_anew")


def groups_of(copies: Sequence[LocalCopy]) -> Sequence[Sequence[LocalCopy]]:
    """The copies that come back in one message: a large one alone, small ones of a ps together."""
    groups: dict[tuple[str, str, Any], list[LocalCopy]] = {}
    for copy in copies:
        variable = copy.variable
        key = (variable.device, copy.host, variable.dtype) if is_small(copy.read) else (variable.op.name, copy.host, None)
        groups.setdefault(key, []).append(copy)
    return list(groups.values())


def bring(group: Sequence[LocalCopy], values: Sequence[Tensor], *, after_use: bool) -> list[Operation]:
    """The ops that give the copies of a group their `values`, which are on the ps; a copy with `sent` gets the difference. after_use: not
    before the step has read the copy."""
    if len(group) > 1:
        values = carry(values, group[0].variable.device, group[0].host)
    kept = []
    for copy, value in zip(group, values, strict=True):
        with tf.device(copy.host), tf.control_dependencies([copy.read.op] if after_use else []):
            kept.append(copy.copy.assign(value, read_value=False) if copy.sent is None else eight_bits.add(value, copy.copy))
    return kept


def _hosts(workers: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(host_of(worker) for worker in workers))


def _plainly_read(gradients: Iterable[GradientsAndVariables], built: int) -> list[tuple[Variable, list[Tensor]]]:
    """The variables with dense gradients that ops after the first `built` only read, each with what they read."""
    pairs = [pair for each in gradients for pair in each if hasattr(pair[1], "handle")]
    variables = {variable.handle.op.name: variable for _, variable in pairs}
    sparse = {variable.handle.op.name for gradient, variable in pairs if isinstance(gradient, tf.IndexedSlices)}
    new = {operation.name for operation in tf.compat.v1.get_default_graph().get_operations()[built:]}
    found = []
    for name, variable in variables.items():
        uses = [operation for operation in variable.handle.consumers() if operation.name in new]
        if name not in sparse and all(_is_plain(operation, variable) for operation in uses):
            found.append((variable, [use.outputs[0] for use in uses if use.type == _READ]))
    return found


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


def _copy(variable: Variable, host: str, sent: Variable | None, *, of_session: bool) -> LocalCopy:
    with tf.device(host):
        copy = tf.compat.v1.Variable(
            variable.read_value if sent is None else lambda: differences.start_of(sent),
            trainable=False,
            collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES] if of_session else [],
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
