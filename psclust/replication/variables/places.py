"""The place of every variable of one graph: the `ps_strategy` of `replica_device_setter`, and the partitioning of large variables.

Round robin places variables as the model creates them. Other policies have placed all of them before, by name (`dry_build`).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from psclust.placement import variable
from psclust.placement.partition import shard_name, shard_rows
from psclust.placement.placement_settings import PlacementSettings
from psclust.replication.tf_types import Operation, Variable
from psclust.replication.variables.sharded import ShardedVariable, create_shards

# The first tower creates the variables; those not made with get_variable carry its name scope.
TOWER_SCOPE = "tower_"
# The graph collection of the names of variables that could be partitioned.
DIVISIBLE = "psclust/divisible"
_FIRST_TOWER = f"{TOWER_SCOPE}0/"


class Places:
    """Shared by all towers of a graph, which reuse each other's variables, so every variable counts once.

    placed: name -> ps index of every variable and shard; None places them round robin.
    """

    def __init__(self, ps: int, settings: PlacementSettings | None = None, placed: Mapping[str, int] | None = None) -> None:
        self._settings = settings or PlacementSettings()
        self._settings.check(ps)
        self._ps = ps
        self._placed = placed
        self._count = 0
        # Of partitioned variables: name -> (shape, rows of each shard); name of a shard -> name of the whole.
        self._partitioned: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self._wholes: dict[str, str] = {}

    def __call__(self, op: Operation) -> int:
        """The ps of an op that `replica_device_setter` puts on one."""
        if any(True for _ in op.graph._colocation_stack.peek_objs()):
            # A slot of the model's own train_op. Colocation overrides this answer, and it must not count.
            return 0
        name = op.name.removeprefix(_FIRST_TOWER)
        pinned = self._settings.pinned(name, self._wholes.get(name))
        if pinned is not None:
            return pinned
        if self._placed is None:
            self._count += 1
            return (self._count - 1) % self._ps
        if name in self._placed:
            return self._placed[name]
        # Not in the dry build: a mutable hash table, or a variable created only with several replicas. Its name alone decides.
        return zlib.crc32(name.encode()) % self._ps

    def getter(self) -> Callable[..., Variable]:
        """A `custom_getter` for the variable scope of one replica, which partitions large variables and collects `DIVISIBLE`."""
        made: dict[str, ShardedVariable] = {}

        def get(getter: Callable[..., Variable], name: str, **arguments: Any) -> Variable:
            shape, rows = self._rows(name, arguments)
            if name in made and arguments.get("reuse"):
                return made[name]
            if len(rows) < 2:
                return getter(name=name, **arguments)
            arguments.pop("shape", None)
            self._partitioned[name] = (shape, rows)
            self._wholes |= {shard_name(name, index): name for index in range(len(rows))}
            made[name] = create_shards(getter, name, shape, rows, **arguments)
            return made[name]

        return get

    def _rows(self, name: str, arguments: Mapping[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(shape, rows of each shard) of a requested variable; no rows if it must not be partitioned. Raises ValueError, as `get_variable`
        does, if the variable exists in another shape."""
        shape = _divisible_shape(arguments)
        if name in self._partitioned:
            known = self._partitioned[name][0]
            if shape not in (None, known):
                raise ValueError(f"Trying to share variable {name}, but specified shape {shape} and found shape {known}.")
            return self._partitioned[name]
        if shape is None:
            return (), ()
        tf.compat.v1.add_to_collection(DIVISIBLE, name)
        dtype = tf.as_dtype(arguments.get("dtype") or tf.float32).base_dtype
        return shape, shard_rows(variable.Variable(name, shape, dtype.name), self._settings.max_shard_bytes)


def _divisible_shape(arguments: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The shape of a variable requested with the `arguments` of `get_variable`; None if it cannot be partitioned: local (metrics),
    partitioned by the model, or without a static shape or an axis."""
    if arguments.get("partitioner") is not None or tf.compat.v1.GraphKeys.LOCAL_VARIABLES in (arguments.get("collections") or ()):
        return None
    shape, initializer = arguments.get("shape"), arguments.get("initializer")
    if shape is None and initializer is not None and not callable(initializer):
        shape = tf.convert_to_tensor(initializer).shape
    shape = tf.TensorShape(shape) if shape is not None else tf.TensorShape(None)
    return tuple(shape.as_list()) if shape.is_fully_defined() and shape.rank else None
