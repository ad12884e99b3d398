"""Where the variables of one graph go, by the placement policy: the `ps_strategy` of `replica_device_setter`, and the cutting of large
variables.

Round robin deals variables out as the model creates them. `balanced` needs all of them before the first: the model is built once aside, in
a graph without devices (`dry_build`), and its variables are placed by their names.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from psclust.placement.partition import shard_name, shard_rows
from psclust.placement.policy import Policy
from psclust.placement.variable import Variable
from psclust.replication.variables.sharded import ShardedVariable, create_shards

# The first tower makes the variables; those not made with get_variable carry its name scope.
TOWER_SCOPE = "tower_"
# The graph collection of the names of variables that could be cut.
DIVISIBLE = "psclust/divisible"
_FIRST_TOWER = f"{TOWER_SCOPE}0/"


class Places:
    """One object is shared by all towers of a graph, which reuse each other's variables, so that every variable counts once.

    placed: name -> ps index of every variable and shard, for `balanced`; None deals them out as they come.
    """

    def __init__(self, ps: int, policy: Policy | None = None, placed: Mapping[str, int] | None = None) -> None:
        self._policy = policy or Policy()
        self._policy.check(ps)
        self._ps = ps
        self._placed = placed
        self._count = 0
        self._cut: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self._whole: dict[str, str] = {}

    def __call__(self, op: Any) -> int:
        """The ps of an op that `replica_device_setter` puts on one."""
        if any(True for _ in op.graph._colocation_stack.peek_objs()):
            # A slot of a train_op that the model makes itself: wherever it is put here, it goes where its variable is.
            return 0
        name = op.name.removeprefix(_FIRST_TOWER)
        pinned = self._policy.pinned(name, self._whole.get(name))
        if pinned is not None:
            return pinned
        if self._placed is None:
            self._count += 1
            return (self._count - 1) % self._ps
        if name in self._placed:
            return self._placed[name]
        # Not part of the dry build: a mutable hash table, or a variable that is made only among several replicas. Its name alone decides.
        return zlib.crc32(name.encode()) % self._ps

    def getter(self) -> Callable[..., Any]:
        """The `custom_getter` of one replica's variable scope: cuts large variables, and notes in the graph which could be cut."""
        made: dict[str, ShardedVariable] = {}

        def get(getter: Callable[..., Any], name: str, **arguments: Any) -> Any:
            shape, rows = self._rows(name, arguments)
            if name in made and arguments.get("reuse"):
                return made[name]
            if len(rows) < 2:
                return getter(name=name, **arguments)
            arguments.pop("shape", None)
            self._cut[name] = (shape, rows)
            self._whole |= {shard_name(name, index): name for index in range(len(rows))}
            made[name] = create_shards(getter, name, shape, rows, **arguments)
            return made[name]

        return get

    def _rows(self, name: str, arguments: Mapping[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(shape, rows of each shard) of a variable that is asked for; no rows where it is not to be cut. Raises ValueError, as
        `get_variable` does, where one that is shared is asked for in another shape."""
        shape = _divisible_shape(arguments)
        if name in self._cut:
            known = self._cut[name][0]
            if shape not in (None, known):
                raise ValueError(f"Trying to share variable {name}, but specified shape {shape} and found shape {known}.")
            return self._cut[name]
        if shape is None:
            return (), ()
        tf.compat.v1.add_to_collection(DIVISIBLE, name)
        dtype = tf.as_dtype(arguments.get("dtype") or tf.float32).base_dtype
        return shape, shard_rows(Variable(name, shape, dtype.name), self._policy.max_shard_bytes)


def _divisible_shape(arguments: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The shape of a variable that `get_variable` is asked for with `arguments`; None where it cannot be cut: a local one (metrics), one
    that the model cuts itself, one whose shape is not known or has no axis."""
    if arguments.get("partitioner") is not None or tf.compat.v1.GraphKeys.LOCAL_VARIABLES in (arguments.get("collections") or ()):
        return None
    shape, initializer = arguments.get("shape"), arguments.get("initializer")
    if shape is None and initializer is not None and not callable(initializer):
        shape = tf.convert_to_tensor(initializer).shape
    shape = tf.TensorShape(shape) if shape is not None else tf.TensorShape(None)
    return tuple(shape.as_list()) if shape.is_fully_defined() and shape.rank else None
