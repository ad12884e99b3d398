"""The place of every variable of one graph: the `ps_strategy` of `replica_device_setter`, and the
partitioning of large variables.

Round robin places variables, and shards, as the model creates them. Other policies need to know all
of them first: until then each variable has a ps of its own that does not exist, and when the first
tower is complete, every op that is with a variable moves to the ps that the policy names.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf

from psclust.placement import variable
from psclust.placement.cuts import cuts, guess
from psclust.placement.partition import Cut, shard_name
from psclust.placement.place import place
from psclust.placement.placement_settings import AUTO, NONE, PlacementSettings
from psclust.placement.policies import ROUND_ROBIN
from psclust.placement.round_robin import in_turn
from psclust.replication.device_layout import Decided
from psclust.replication.private_tensorflow import is_colocating, nodes_of_functions, set_device
from psclust.replication.tf_types import Operation, Variable
from psclust.replication.variables.descriptions import DIVISIBLE
from psclust.replication.variables.sharded import ShardedVariable, create_shards

# The first of the ps that do not exist; TensorFlow refuses to run an op that was left on one.
_UNSETTLED = 1_000_000
_PS = re.compile(r"/job:ps/(?:.*/)?task:(\d+)")


class BuildAgain(Exception):
    """The graph must be built again, with what this build has `decided`: functions of the model are
    on the device of a variable, so they cannot be moved with it; or other variables are to be
    partitioned than were."""

    def __init__(self, decided: Decided) -> None:
        super().__init__("the graph must be built again")
        self.decided = decided


class Places:
    """Shared by all towers of a graph, which reuse each other's variables, so every variable counts
    once. decided: what the settings need not decide."""

    def __init__(
        self, ps: int, settings: PlacementSettings | None = None, decided: Decided | None = None
    ) -> None:
        settings = settings or PlacementSettings()
        settings.check(ps)
        if ps == 0 and settings.max_shard_bytes == AUTO:
            settings = replace(settings, max_shard_bytes=NONE)
        self._settings = settings
        self._ps = ps
        self._decided = decided or Decided()
        self._placed = self._decided.placed
        self._waits = self._placed is None and settings.policy != ROUND_ROBIN and ps > 1
        self._waiting: list[variable.Variable] = []
        self._count = 0
        # Of partitioned variables: name -> shape; name -> cut; name of a shard -> name of the
        # whole.
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._cuts: dict[str, Cut] = {}
        self._wholes: dict[str, str] = {}

    def __call__(self, op: Operation) -> int:
        """The ps of an op that `replica_device_setter` puts on one."""
        if is_colocating(op.graph):
            # A slot of the model's own train_op. Colocation overrides this answer, and it must not
            # count.
            return 0
        name = op.name
        if self._waits and "shape" in op.node_def.attr:
            self._waiting.append(_described(op, name, self._wholes.get(name)))
            return _UNSETTLED + len(self._waiting) - 1
        pinned = self._settings.pinned(name, self._wholes.get(name))
        if pinned is not None:
            return pinned
        if self._placed is None and not self._waits:
            self._count += 1
            return in_turn(self._count - 1, self._ps, name, self._shards_of(name))
        if self._placed is not None and name in self._placed:
            return self._placed[name]
        # A mutable hash table, or a variable that a later tower creates. Its name alone decides.
        return zlib.crc32(name.encode()) % self._ps

    def _shards_of(self, name: str) -> int:
        whole = self._wholes.get(name)
        return 0 if whole is None else len(self._cuts[whole].sizes)

    def settle(
        self, variables: Callable[[], Sequence[variable.Variable]], whole: str | None
    ) -> None:
        """Places the variables of the current graph by the policy, now that all of the model's
        exist, and moves what is with them there. variables: describes them. whole: why `auto` must
        partition none; None if it may. Raises BuildAgain if that is not possible, or if others
        should be partitioned than were."""
        self._check_cuts(variables, whole)
        if not self._waits:
            return
        self._waits, self._placed = False, place(self._waiting, self._ps, self._settings)
        graph = tf.compat.v1.get_default_graph()
        if any(_unsettled(node.device) for node in nodes_of_functions(graph)):
            raise BuildAgain(replace(self._decided, placed=self._placed, cuts=self._cuts))
        for operation in graph.get_operations():
            task = _unsettled(operation.device)
            if task is not None:
                settled = self._placed[self._waiting[int(task[1]) - _UNSETTLED].name]
                before, after = operation.device[: task.start(1)], operation.device[task.end(1) :]
                set_device(operation, f"{before}{settled}{after}")

    def _check_cuts(
        self, variables: Callable[[], Sequence[variable.Variable]], whole: str | None
    ) -> None:
        if self._decided.cuts is not None or self._settings.max_shard_bytes != AUTO:
            return
        wanted = cuts(variables(), self._ps, self._settings)
        if whole is not None and (wanted or self._cuts):
            raise BuildAgain(Decided(cuts={}, whole=whole))
        if wanted != self._cuts:
            raise BuildAgain(Decided(cuts=wanted))
        self._decided = replace(self._decided, cuts=wanted)

    def refused(self, error: Exception) -> None:
        """Raises BuildAgain, with whole variables, if `error` may come from a partitioned one that
        the user did not ask for."""
        if self._cuts and self._settings.max_shard_bytes == AUTO:
            reason = str(error).strip().partition("\n")[0]
            raise BuildAgain(
                Decided(cuts={}, whole=f"model_fn needs whole ones ({reason})")
            ) from error

    def getter(self) -> Callable[..., Variable]:
        """A `custom_getter` for the variable scope of one replica, which partitions large variables
        and collects `DIVISIBLE`."""
        made: dict[str, ShardedVariable] = {}

        def get(getter: Callable[..., Variable], name: str, **arguments: Any) -> Variable:
            how = self._cut(name, arguments)
            if name in made and arguments.get("reuse"):
                return made[name]
            if how is None:
                return getter(name=name, **arguments)
            arguments.pop("shape", None)
            self._wholes |= {shard_name(name, index): name for index in range(len(how.sizes))}
            made[name] = create_shards(getter, name, self._shapes[name], how, **arguments)
            return made[name]

        return get

    def _cut(self, name: str, arguments: Mapping[str, Any]) -> Cut | None:
        """How a requested variable is partitioned; None if it is not. Raises ValueError, as
        `get_variable` does, if the variable exists in another shape."""
        shape = _divisible_shape(arguments)
        if name in self._cuts:
            known = self._shapes[name]
            if shape not in (None, known):
                raise ValueError(
                    f"Trying to share variable {name}, "
                    f"but specified shape {shape} and found shape {known}."
                )
            return self._cuts[name]
        if shape is None:
            return None
        tf.compat.v1.add_to_collection(DIVISIBLE, name)
        how = self._new_cut(name, shape, arguments)
        if how is not None:
            self._shapes[name], self._cuts[name] = shape, how
        return how

    def _new_cut(
        self, name: str, shape: tuple[int, ...], arguments: Mapping[str, Any]
    ) -> Cut | None:
        if self._decided.cuts is not None:
            return self._decided.cuts.get(name)
        dtype = tf.as_dtype(arguments.get("dtype") or tf.float32).base_dtype
        trained = arguments.get("trainable") is not False
        return guess(
            variable.Variable(name, shape, dtype.name, trained=trained), self._ps, self._settings
        )


def _unsettled(device: str) -> re.Match[str] | None:
    """Where `device` has the number of a ps that does not exist."""
    found = _PS.search(device)
    return found if found is not None and int(found[1]) >= _UNSETTLED else None


def _described(op: Operation, name: str, whole: str | None) -> variable.Variable:
    shape = tf.TensorShape(op.get_attr("shape"))
    sizes = tuple(size or 0 for size in shape.as_list()) if shape.rank is not None else ()
    return variable.Variable(name, sizes, op.get_attr("dtype").base_dtype.name, whole=whole)


def _divisible_shape(arguments: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The shape of a variable requested with the `arguments` of `get_variable`; None if it cannot
    be partitioned: local (metrics), partitioned by the model, or without a static shape or an
    axis."""
    if arguments.get("partitioner") is not None or tf.compat.v1.GraphKeys.LOCAL_VARIABLES in (
        arguments.get("collections") or ()
    ):
        return None
    shape, initializer = arguments.get("shape"), arguments.get("initializer")
    if shape is None and initializer is not None and not callable(initializer):
        shape = tf.convert_to_tensor(initializer).shape
    shape = tf.TensorShape(shape) if shape is not None else tf.TensorShape(None)
    return tuple(shape.as_list()) if shape.is_fully_defined() and shape.rank else None
