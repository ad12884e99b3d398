"""Variables that move from ps to ps, as a run gets other ps or another placement.

Each placement has its variables in a container of its own (`psclust.plan.variables_home`): the old
ones and the new ones, which may be cut otherwise, are on the same servers for a while. The chief
describes those that are there in one more, LAYOUT. The chief of the next placement reads it, has
each new variable fetch its values from the ps that have them, and empties it: from then on the new
ones count. Should anything go wrong before, the last checkpoint counts.
"""

from __future__ import annotations

import json
import logging
import math
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any

import tensorflow as tf

from psclust.replication.private_tensorflow import slice_of
from psclust.replication.tf_types import Operation, Session, Tensor, Variable
from psclust.replication.variables.descriptions import ps_of
from psclust.replication.variables.training_state import PASSING
from psclust.spec.jobs import IN_GRAPH, PS, WORKER
from psclust.spec.typed_json import converter, parse_json
from psclust.train.session import answers, brief, open_session, session_config
from psclust.train.task_context import TaskContext, task_of

LOG = logging.getLogger(__name__)

LAYOUT = "psclust/layout"
_BEFORE = "before"
"""The job, in a session that moves variables, of ps that the cluster has no more."""
_BLOCK = 1 << 25
_AT_ONCE = 1 << 26
"""Bytes that are on their way at a time, for each ps, in blocks, and in how many runs."""
_RUNS = 2


def _bytes(shape: Sequence[int], dtype: str) -> int:
    return math.prod(shape) * tf.as_dtype(dtype).size


@dataclass(frozen=True, slots=True)
class Piece:
    """A variable, or a shard of one: its own name, the ps that has it, its type; the name of the
    whole variable, where in that it begins, and its shape."""

    name: str
    ps: int
    dtype: str
    whole: str
    begin: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def end(self) -> tuple[int, ...]:
        return tuple(first + size for first, size in zip(self.begin, self.shape, strict=True))

    @property
    def size(self) -> int:
        return _bytes(self.shape, self.dtype)


@dataclass(frozen=True, slots=True)
class Part:
    """What a new piece takes from an old one: from `begin` on, in the whole, `shape`."""

    source: Piece
    begin: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return _bytes(self.shape, self.source.dtype)

    def within(self, piece: Piece) -> list[int]:
        """Where it begins in a piece of the variable."""
        return [first - whole for first, whole in zip(self.begin, piece.begin, strict=True)]


@dataclass(frozen=True, slots=True)
class Layout:
    """What a placement has on its servers. state: of each of its variables, also those that no
    checkpoint has, the name and the device."""

    pieces: tuple[Piece, ...]
    state: tuple[tuple[str, str], ...]


class CannotMoveError(Exception):
    """Why the variables are not where they were, or do not cover the new ones; as a clause."""


def piece_of(variable: Variable) -> Piece:
    name = variable.handle.op.get_attr("shared_name").decode()
    ps, dtype = ps_of(variable), variable.dtype.base_dtype.name
    info = slice_of(variable)
    if info is None:
        shape = tuple(variable.shape.as_list())
        return Piece(name, ps, dtype, variable.op.name, (0,) * len(shape), shape)
    return Piece(name, ps, dtype, info.full_name, tuple(info.var_offset), tuple(info.var_shape))


def parts_of(new: Piece, old: Sequence[Piece]) -> list[Part]:
    """What `new` is made of. old: the pieces of the same variable. Raises CannotMoveError."""
    parts = []
    for each in old:
        begin = tuple(map(max, each.begin, new.begin))
        end = tuple(map(min, each.end, new.end))
        shape = tuple(last - first for first, last in zip(begin, end, strict=True))
        if all(size > 0 for size in shape):
            parts.append(Part(each, begin, shape))
    if sum(part.size for part in parts) != new.size:
        raise CannotMoveError(f"{new.name} is not all there")
    return parts


def blocks_of(part: Part) -> Iterator[Part]:
    """The part in blocks of at most `_BLOCK` bytes, cut along its longest axis."""
    count = min(-(-part.size // _BLOCK), max(part.shape, default=1))
    if count <= 1:
        yield part
        return
    axis = part.shape.index(max(part.shape))
    for number in range(count):
        first, last = (part.shape[axis] * place // count for place in (number, number + 1))
        begin, shape = list(part.begin), list(part.shape)
        begin[axis] += first
        shape[axis] = last - first
        yield Part(part.source, tuple(begin), tuple(shape))


class MovedVariables:
    """Of a chief, or of an in-graph client: `variables` are those of its graph, which is the
    current one."""

    def __init__(self, context: TaskContext, target: str, variables: Sequence[Variable]) -> None:
        self._context, self._target = context, target
        self._pieces: list[Piece] = []
        self.described: list[Operation] = []
        """Run once all variables have values: says for the next placement what is there."""
        kept = [each for each in variables if each.op.name not in PASSING]
        if context.elastic and context.task is not None and all(map(_is_movable, kept)):
            self._pieces = [piece_of(each) for each in kept]
            jobs = {PS, WORKER} if context.replication == IN_GRAPH else {PS}
            layout = Layout(tuple(self._pieces), tuple(_state(jobs)))
            text = json.dumps(asdict(layout))
            with tf.device(_ps(0)):
                self.described = [_assign(_handle(LAYOUT, tf.string, (), None), text)]

    def fetch(self) -> bool:
        """Gives all variables but those of PASSING the values that they have where they were, if
        they are still there; whether they were."""
        home = self._context.home
        if not home.ps or not self._pieces or not all(map(answers, home.ps)):
            return False
        devices, config = self._where(home.ps)
        try:
            with (
                tf.Graph().as_default() as graph,
                open_session(self._target, graph, config) as session,
            ):
                # One that has begun here counts, also if it could fetch nothing then.
                if _read_layout(session, _ps(0), home.container) is not None:
                    return False
                found = _read_layout(session, devices[0], home.before)
                if found is None:
                    return False
                self._copy_all(session, found.pieces, devices)
                with tf.device(devices[0]):
                    emptied = _assign(_handle(LAYOUT, tf.string, (), home.before), "")
                session.run(emptied)
                with suppress(tf.errors.OpError):
                    session.run(self._forget(found, devices))
        except (tf.errors.OpError, CannotMoveError) as error:
            why = brief(error) if isinstance(error, tf.errors.OpError) else error
            LOG.warning("the variables do not move from ps to ps: %s", why)
            return False
        return True

    def _where(self, before: Sequence[str]) -> tuple[list[str], Any]:
        """(the device of each ps that there was, the config of a session that has them too)."""
        assert self._context.cluster is not None
        now = list(self._context.cluster.as_dict()[PS])
        config = session_config(self._context)
        config.device_filters.append(f"/job:{_BEFORE}")
        job = config.cluster_def.job.add(name=_BEFORE)
        devices = []
        for index, address in enumerate(before):
            if address in now:
                devices.append(_ps(now.index(address)))
            else:
                job.tasks[index] = address
                devices.append(f"/job:{_BEFORE}/task:{index}/device:CPU:0")
        if not job.tasks:
            config.cluster_def.job.remove(job)
        return devices, config

    def _copy_all(self, session: Session, found: Sequence[Piece], devices: Sequence[str]) -> None:
        """Gives the variables their values. While one run copies blocks, the next one is built and
        begun, so that no link is idle."""
        old: dict[str, list[Piece]] = {}
        for piece in found:
            old.setdefault(piece.whole, []).append(piece)
        # Before anything changes.
        parts = [parts_of(new, old.get(new.whole, [])) for new in self._pieces]
        blocks = [[part for each in of for part in blocks_of(each)] for of in parts]
        large = [new for new, of in zip(self._pieces, blocks, strict=True) if len(of) > 1]
        session.run([self._empty(new) for new in large])
        with ThreadPoolExecutor(_RUNS) as threads:
            begun: deque[Future[Any]] = deque()
            for ops in self._copies(blocks, devices):
                if len(begun) == _RUNS:
                    begun.popleft().result()
                begun.append(threads.submit(session.run, ops))
            for each in begun:
                each.result()

    def _copies(
        self, blocks: Sequence[Sequence[Part]], devices: Sequence[str]
    ) -> Iterator[list[Operation]]:
        """For one run after another. blocks: of each new piece. One of each comes in turn, so that
        all ps send and receive."""
        assert self._context.cluster is not None
        most = _AT_ONCE * self._context.cluster.count(PS) // _RUNS
        ops: list[Operation] = []
        size = 0
        for turn in zip_longest(*blocks):
            for new, block in zip(self._pieces, turn, strict=True):
                if block is None:
                    continue
                ops.append(self._copy(new, block, devices[block.source.ps]))
                size += block.size
                if size >= most:
                    yield ops
                    ops, size = [], 0
        yield ops

    def _copy(self, new: Piece, block: Part, device: str) -> Operation:
        value = _value(block, device, self._context.home.before)
        with tf.device(_ps(new.ps)):
            handle = _handle(new.name, new.dtype, new.shape, self._context.home.container)
            if block.shape == new.shape:
                return _assign(handle, value)
            begin = block.within(new)
            return tf.raw_ops.ResourceStridedSliceAssign(
                ref=handle,
                begin=begin,
                end=[first + size for first, size in zip(begin, block.shape, strict=True)],
                strides=[1] * len(begin),
                value=value,
            )

    def _forget(self, found: Layout, devices: Sequence[str]) -> list[Operation]:
        """Ends the variables of the placement before, where their servers stay."""
        assert self._context.cluster is not None
        workers = self._context.cluster.count(WORKER)
        ops = []
        for name, device in found.state:
            task = task_of(device)
            if task.job == PS or task.index < workers:
                with tf.device(devices[task.index] if task.job == PS else device):
                    ops.append(_forgotten(_handle(name, tf.float32, (), self._context.home.before)))
        return ops

    def _empty(self, new: Piece) -> Operation:
        with tf.device(_ps(new.ps)):
            handle = _handle(new.name, new.dtype, new.shape, self._context.home.container)
            return _assign(handle, tf.raw_ops.Empty(shape=new.shape, dtype=new.dtype))


def _is_movable(variable: Variable) -> bool:
    on_ps = tf.DeviceSpec.from_string(variable.device).job == PS
    return on_ps and hasattr(variable, "handle") and variable.shape.is_fully_defined()


def _ps(index: int) -> str:
    return f"/job:{PS}/task:{index}/device:CPU:0"


def _state(jobs: Collection[str]) -> Iterator[tuple[str, str]]:
    """Of the current graph, on the tasks of these jobs."""
    for op in tf.compat.v1.get_default_graph().get_operations():
        spec = tf.DeviceSpec.from_string(op.device)
        if op.type == "VarHandleOp" and spec.job in jobs:
            yield op.get_attr("shared_name").decode(), f"/job:{spec.job}/task:{spec.task or 0}"


def _read_layout(session: Session, device: str, container: str) -> Layout | None:
    with tf.device(device):
        handle = _handle(LAYOUT, tf.string, (), container)
        there = tf.raw_ops.VarIsInitializedOp(resource=handle)
        read = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.string)
    text = session.run(read) if session.run(there) else b""
    return converter(Layout)(parse_json(text.decode())) if text else None


def _value(part: Part, device: str, container: str) -> Tensor:
    """Cut where it is, so that nothing else travels."""
    source = part.source
    with tf.device(device):
        handle = _handle(source.name, source.dtype, source.shape, container)
        value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=source.dtype)
        if part.shape == source.shape:
            return value
        return tf.slice(value, part.within(source), part.shape)


def _handle(name: str, dtype: Any, shape: Sequence[int], container: str | None) -> Tensor:
    """container: None: that of the graph."""
    where: Mapping[str, Any] = {} if container is None else {"container": container}
    return tf.raw_ops.VarHandleOp(dtype=dtype, shape=shape, shared_name=name, **where)


def _forgotten(handle: Tensor) -> Operation:
    return tf.raw_ops.DestroyResourceOp(resource=handle, ignore_lookup_error=True)


def _assign(handle: Tensor, value: Any) -> Operation:
    return tf.raw_ops.AssignVariableOp(resource=handle, value=value)
