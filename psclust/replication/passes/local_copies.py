"""A worker's own copies of the variables it trains, so that both directions of the wire are used at
once.

A model needs all its weights before it has a gradient, so a step that pulls what it computes from
uses one direction of the wire at a time. A step with copies computes from what the step before has
left, and each variable comes back as soon as it is updated, while the gradients of others still
leave:

    without    | pull v1 v2 v3 | compute | push g3 g2 g1 |
    with       | compute | push g3 g2 g1   |
               |         |   pull v3 v2 v1 |

The values are those that the next step would have pulled, unless other replicas update them in
between, which makes an asynchronous update a little more stale. Copies are local variables. A
session pulls them when it begins, but a synchronous between-graph worker when it has a token. With
int8 on the wire, only differences of large ones come back (see `differences`). The shards of a
variable that the model reads as a whole share one copy (see `whole`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from psclust.replication.device_layout import host_of
from psclust.replication.gradients import GradientsAndVariables
from psclust.replication.passes.pulls import same_task
from psclust.replication.private_tensorflow import replace_uses, set_input
from psclust.replication.state_changes import written
from psclust.replication.tf_types import Operation, Tensor, Variable
from psclust.replication.variables.sharded import is_whole, taken_apart
from psclust.replication.wire import differences, eight_bits
from psclust.replication.wire.buckets import carry, is_small
from psclust.replication.wire.whole import can_be_put_together, put_together

# A variable can have copies if, apart from the update, its handle is only used by these: to read it
# and to initialize it.
_READ, _INITIALIZED = "ReadVariableOp", frozenset({"AssignVariableOp", "VarIsInitializedOp"})


@dataclass(frozen=True)
class LocalCopy:
    """The copy of `variable` on the device `host`, a task's CPU.

    copy: the local variable that holds it; all shards of a whole are in one. value: what a step
    reads of `copy`; read: the part of `value` that is this variable's; part: its number. sent: on
    the ps, the value that the copy has, where differences come back; None where the whole value
    does. Copies that are refreshed together share it. arrives_as: the dtype in which `put_together`
    takes the part, None: that of the variable.
    """

    variable: Variable
    host: str
    copy: Variable
    value: Tensor
    read: Tensor
    sent: Variable | None = None
    part: int = 0
    arrives_as: str | None = None


@dataclass(frozen=True)
class _Wanted:
    """A copy to be made. users: the inputs in its task that are values of the variable."""

    variable: Variable
    host: str
    users: Sequence[tuple[Operation, int]]
    sent: Variable | None


def copy_locally(
    gradients: Iterable[GradientsAndVariables],
    workers: Sequence[str],
    wire_dtype: str,
    *,
    together: bool,
    of_session: bool = True,
) -> Sequence[LocalCopy]:
    """Makes the towers on the devices `workers`, which have these `gradients`, compute from copies
    of their variables, one on each task. together: all copies of a variable are refreshed by the
    same op; otherwise those of each tower are.

    No copies are made of variables that a step does not update as a whole (those with sparse
    gradients), or that the model does more with than to read them: gather from them, assign to
    them, read them inside functions or after other ops. of_session: a session pulls the copies when
    it begins; otherwise `pull` has to, and the copies of all workers are refreshed together.
    """
    hosts = _hosts(workers)
    # Towers that refresh the same copy, each when it likes, would add the same difference twice.
    rounded = wire_dtype == "int8" and (together or len(hosts) == len(workers))
    wanted: list[_Wanted] = []
    for variable, reads in _plainly_read(gradients):
        sent = None
        for host, users in _users(variable, reads, hosts).items():
            if (
                rounded
                and eight_bits.fits(variable)
                and not is_small(variable)
                and (sent is None or not together)
            ):
                sent = differences.keep_sent(variable, host if of_session else None)
            wanted.append(_Wanted(variable, host, users, sent))
    copies = _of_wholes(wanted, wire_dtype, of_session)
    there = {(copy.variable.ref(), copy.host) for copy in copies}
    for one in wanted:
        if (one.variable.ref(), one.host) not in there:
            copy, value = _copy([one], one.variable.op.name, of_session)
            copies.append(LocalCopy(one.variable, one.host, copy, value, value, one.sent))
    reads_of = {(copy.variable.ref(), copy.host): copy.read for copy in copies}
    for one in wanted:
        for user, index in one.users:
            set_input(user, index, reads_of[one.variable.ref(), one.host])
    return copies


def can_copy_all(gradients: GradientsAndVariables, workers: Iterable[str]) -> bool:
    """Whether `copy_locally` would give the towers a copy of every variable in `gradients`, so that
    nothing else reads one."""
    hosts, plain = _hosts(workers), _plainly_read([gradients])
    users = [user for _, reads in plain for value in reads for user in value.consumers()]
    return len(plain) == len(gradients) and all(
        any(same_task(user.device, host) for host in hosts) for user in users
    )


def refresh(copies: Sequence[LocalCopy], changes: Iterable[Operation]) -> dict[str, Operation]:
    """host -> the op that brings its copies up to date, each after those of `changes` (see
    `state_changes`) that write to its variable. Small variables of a ps travel in one message, when
    all of them have been updated."""
    writers = written(changes)
    values: dict[Any, Tensor] = {}
    messages: dict[Any, Tensor] = {}
    for copy in copies:
        if copy.variable.ref() not in values:
            values[copy.variable.ref()] = _updated(copy.variable, writers)
        if copy.sent is not None and copy.sent.ref() not in messages:
            messages[copy.sent.ref()] = differences.difference(
                values[copy.variable.ref()], copy.sent
            )

    def arriving(group: Sequence[LocalCopy]) -> list[Tensor]:
        return [
            messages[c.sent.ref()] if c.sent is not None else values[c.variable.ref()]
            for c in group
        ]

    return {host: _group(host, operations) for host, operations in bring(copies, arriving).items()}


def pull(copies: Sequence[LocalCopy]) -> Operation:
    """The op that brings all `copies`, which are on one host, up to date at once; not for a step
    that uses them."""
    values = []
    for group in groups_of([copy for copy in copies if copy.sent is None]):
        values += _on_host(group, [_updated(copy.variable, {}) for copy in group])
    for copy in copies:
        if copy.sent is not None:
            with tf.device(copy.host):
                values.append((copy, differences.all_sent(copy.sent)))
    return tf.group(
        *[operation for each in _keep(values, in_step=False).values() for operation in each],
        name="pulled_anew",
    )


def groups_of(copies: Sequence[LocalCopy]) -> Sequence[Sequence[LocalCopy]]:
    """The copies that come back in one message: a large one alone, small ones of a ps together."""
    groups: dict[tuple[str, str, Any], list[LocalCopy]] = {}
    for copy in copies:
        variable = copy.variable
        key = (
            (variable.device, copy.host, variable.dtype)
            if is_small(copy.read)
            else (variable.op.name, copy.host, None)
        )
        groups.setdefault(key, []).append(copy)
    return list(groups.values())


def bring(
    copies: Sequence[LocalCopy], arriving: Callable[[Sequence[LocalCopy]], Sequence[Tensor]]
) -> dict[str, list[Operation]]:
    """host -> the ops that bring its copies up to date, not before the step has read them.
    arriving: the values of a group of copies (see `groups_of`) on the ps; the difference for one
    with `sent`."""
    values = []
    # Cast here, because `narrow` would cast them back before they are joined. One cast is for the
    # copies of all hosts.
    cast: dict[Any, Tensor] = {}
    for group in groups_of(copies):
        leaving, copy = arriving(group), group[0]
        if copy.arrives_as and copy.sent is None and len(group) == 1:
            key = leaving[0].ref()
            if key not in cast:
                with tf.device(copy.variable.device):
                    cast[key] = tf.cast(leaving[0], copy.arrives_as, name="leaving")
            leaving = [cast[key]]
        values += _on_host(group, leaving)
    return _keep(values, in_step=True)


def _hosts(workers: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(host_of(worker) for worker in workers))


def _plainly_read(
    gradients: Iterable[GradientsAndVariables],
) -> list[tuple[Variable, list[Tensor]]]:
    """The variables with dense gradients that are only read, each with what reads them."""
    pairs = [pair for each in gradients for pair in each if hasattr(pair[1], "handle")]
    variables = {variable.handle.op.name: variable for _, variable in pairs}
    sparse = {
        variable.handle.op.name
        for gradient, variable in pairs
        if isinstance(gradient, tf.IndexedSlices)
    }
    found = []
    for name, variable in variables.items():
        uses = variable.handle.consumers()
        if name not in sparse and all(_is_plain(operation, variable) for operation in uses):
            found.append((variable, [use.outputs[0] for use in uses if use.type == _READ]))
    return found


def _group(host: str, operations: Sequence[Operation]) -> Operation:
    with tf.device(host):
        return tf.group(*operations, name="refreshed")


def _is_plain(use: Operation, variable: Variable) -> bool:
    if use.type == _READ:
        return not use.control_inputs
    return use.type in _INITIALIZED and (
        use.type != "AssignVariableOp" or use is variable.initializer
    )


def _users(
    variable: Variable, reads: Sequence[Tensor], hosts: Sequence[str]
) -> dict[str, list[tuple[Operation, int]]]:
    """host -> the inputs in its task that are one of `reads`; without the variable's own task."""
    found: dict[str, list[tuple[Operation, int]]] = {}
    for value in reads:
        for user in value.consumers():
            for host in hosts:
                if same_task(user.device, host) and not same_task(host, variable.device):
                    found.setdefault(host, []).extend(
                        (user, i) for i, used in enumerate(user.inputs) if used is value
                    )
    return found


def _of_wholes(wanted: Sequence[_Wanted], wire_dtype: str, of_session: bool) -> list[LocalCopy]:
    """The copies of shards of variables that the model reads as a whole, one for all on each host;
    the model then reads that."""
    parts: dict[Operation, dict[int, _Wanted]] = {}
    for one in wanted:
        for user, index in one.users:
            if is_whole(user):
                parts.setdefault(user, {})[index] = one
    made: dict[Any, list[LocalCopy]] = {}
    for whole, by_index in parts.items():
        shards = [by_index[index] for index in sorted(by_index)]
        if len(shards) < len(whole.inputs) - 1 or not can_be_put_together(
            [one.variable for one in shards]
        ):
            continue
        key = shards[0].host, *(one.variable.ref() for one in shards)
        if key not in made:
            made[key] = _shards(shards, wire_dtype, of_session)
        read = whole.outputs[0]
        replace_uses(read, made[key][0].value, list(read.consumers()))
    return [copy for each in made.values() for copy in each]


def _shards(shards: Sequence[_Wanted], wire_dtype: str, of_session: bool) -> list[LocalCopy]:
    """The copies of shards of one whole, as parts of one local variable."""
    dtype = None if wire_dtype == "float32" else "bfloat16"
    copy, value = _copy(shards, shards[0].variable.op.name.rpartition("/")[0], of_session)
    with tf.device(shards[0].host):
        reads = taken_apart(value, [one.variable.shape for one in shards])
    return [
        LocalCopy(one.variable, one.host, copy, value, read, one.sent, part, dtype)
        for part, (one, read) in enumerate(zip(shards, reads, strict=True))
    ]


def _copy(shards: Sequence[_Wanted], name: str, of_session: bool) -> tuple[Variable, Tensor]:
    """(a copy of these variables, one after another; what a step reads of it)."""
    host = shards[0].host

    def initial() -> Tensor:
        values = [
            one.variable.read_value() if one.sent is None else differences.start_of(one.sent)
            for one in shards
        ]
        return values[0] if len(values) == 1 else put_together(values)

    with tf.device(host):
        copy = tf.compat.v1.Variable(
            initial,
            trainable=False,
            collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES] if of_session else [],
            name=f"{name}/copy",
            use_resource=True,
            dtype=shards[0].variable.dtype.base_dtype,
        )
        return copy, copy.read_value()


def _on_host(
    group: Sequence[LocalCopy], values: Sequence[Tensor]
) -> list[tuple[LocalCopy, Tensor]]:
    """The copies of a group with their values, on the ps, as they arrive on the host."""
    return list(
        zip(
            group,
            carry(values, group[0].variable.device, group[0].host) if len(group) > 1 else values,
            strict=True,
        )
    )


def _keep(
    values: Sequence[tuple[LocalCopy, Tensor]], *, in_step: bool
) -> dict[str, list[Operation]]:
    """host -> the ops that give its copies their `values`. in_step: not before the step has read
    the copies, and for a copy with `sent` the value is the message of the difference."""
    parts: dict[Any, list[tuple[LocalCopy, Tensor]]] = {}
    for copy, value in values:
        parts.setdefault(copy.copy.ref(), []).append((copy, value))
    kept: dict[str, list[Operation]] = {}
    for each in parts.values():
        # The first rows first: in messages they are mixed.
        each.sort(key=lambda pair: pair[0].part)
        first, value = each[0]
        bases = [copy.read if in_step and copy.sent is not None else None for copy, _ in each]
        with tf.device(first.host):
            if len(each) > 1:
                value = put_together([value for _, value in each], bases)
            elif bases[0] is not None:
                value = eight_bits.add(value, bases[0])
            with tf.control_dependencies([first.value.op] if in_step else []):
                kept.setdefault(first.host, []).append(first.copy.assign(value, read_value=False))
    return kept


def _updated(variable: Variable, writers: Mapping[str, tuple[Variable, list[Operation]]]) -> Tensor:
    """The value of the variable after its update, see `written`."""
    after = writers.get(variable.op.name, (variable, []))[1]
    with tf.device(variable.device), tf.control_dependencies(after):
        return variable.read_value()
