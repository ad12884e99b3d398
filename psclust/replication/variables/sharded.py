"""A variable that is partitioned into shards along one axis but looks whole to the model.

Adds to TensorFlow's `PartitionedVariable`: `tf.gather` and every `embedding_lookup` read only the
rows they need, each from its shard, whatever partition strategy the caller names (TensorFlow's
default in `compat.v1`, `mod`, would give every row another number, so its meaning would depend on
the number of shards); other uses concatenate the whole value once in each replica, and what is
taken apart again, its gradient, is seldom copied; operators work; and the initial value does not
depend on the shards.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from psclust.placement.partition import Cut, shard_name
from psclust.replication.private_tensorflow import (
    PartitionedVariable,
    gradient_of,
    in_control_flow,
    register_dispatchable_type,
    set_slice,
)
from psclust.replication.tf_types import Gradient, Operation, Tensor, Variable

# Initial values up to this size are computed as a whole and split; above, every shard computes its
# own, where it is.
_WHOLE_BYTES = 1 << 28
_ROWS_OF_WHOLE = "PsclustRowsOfWhole"


@register_dispatchable_type
class ShardedVariable(PartitionedVariable):
    """The result of `get_variable` for a partitioned variable. Iterating yields its shards, in
    order."""

    def __init__(self, name: str, shape: Sequence[int], how: Cut, shards: Sequence[Variable]):
        partitions = [1] * len(shape)
        partitions[how.axis] = len(shards)
        super().__init__(name, list(shape), shards[0].dtype.base_dtype, list(shards), partitions)
        self._whole_shape = tf.TensorShape(shape)
        self._axis = how.axis
        self._graph = tf.compat.v1.get_default_graph()
        self._value: Tensor | None = None

    @property
    def rows(self) -> list[Variable]:
        """The shards, which are rows of it. Raises ValueError if they are not."""
        if self._axis != 0:
            raise ValueError(
                f"{self.name} is partitioned along axis {self._axis}, so its rows are in no shard"
            )
        return list(self)

    def get_shape(self) -> Any:
        return self._whole_shape

    def sparse_read(self, indices: Tensor, name: str | None = None) -> Tensor:
        """The rows at `indices`, int [any]: [any, *shape[1:]]. `tf.gather` calls this."""
        return tf.compat.v1.nn.embedding_lookup(self.rows, indices, "div", name=name)

    def as_tensor(self) -> Tensor:
        graph = tf.compat.v1.get_default_graph()
        if graph is not self._graph or in_control_flow(graph):
            return super().as_tensor()
        if self._value is None:
            self._value = super().as_tensor()
        return self._value

    def value(self) -> Tensor:
        return self.as_tensor()

    def read_value(self) -> Tensor:
        return self._concat()

    def _concat(self) -> Tensor:
        if self._axis != 0:
            return super()._concat()
        with tf.compat.v1.get_default_graph().gradient_override_map({"ConcatV2": _ROWS_OF_WHOLE}):
            return super()._concat()

    @property
    def initializer(self) -> Operation:
        return tf.group(*[shard.initializer for shard in self])


def is_whole(operation: Operation) -> bool:
    """Whether its output is the whole value of a variable that is partitioned by rows; its shards
    are the inputs but the last."""
    return (
        operation.type == "ConcatV2"
        and operation.node_def.attr["_gradient_op_type"].s.decode() == _ROWS_OF_WHOLE
    )


def taken_apart(whole: Tensor, shapes: Iterable[Any]) -> list[Tensor]:
    """Its rows as values of these shapes, one after another. TensorFlow takes a range of a vector
    without a copy if it begins and ends at 64 bytes, ranges of rows only if each row does."""
    values, above, parts = tf.reshape(whole, [-1]), 0, []
    for shape in shapes:
        count = shape.num_elements()
        parts.append(tf.reshape(tf.slice(values, [above], [count]), shape))
        above += count
    return parts


def _gradients_of_shards(concat: Operation, gradient: Gradient) -> list[Any]:
    if isinstance(gradient, tf.IndexedSlices):
        return list(gradient_of("ConcatV2")(concat, gradient))
    return [*taken_apart(gradient, [shard.shape for shard in concat.inputs[:-1]]), None]


tf.RegisterGradient(_ROWS_OF_WHOLE)(_gradients_of_shards)


def _operator(name: str) -> Callable[..., Tensor]:
    def apply(self: ShardedVariable, *arguments: Tensor) -> Tensor:
        return getattr(self.as_tensor(), name)(*arguments)

    return apply


for _name in tf.Tensor.OVERLOADABLE_OPERATORS - {"__eq__", "__ne__", "__len__", "__iter__"}:
    setattr(ShardedVariable, _name, _operator(_name))


def _by_rows(function: Callable[..., Tensor], parameter: str) -> Callable[..., Tensor]:
    """`function`, which looks up rows of its `parameter`, with the only `partition_strategy` that
    fits the shards."""
    signature = inspect.signature(function)

    def with_shards(*arguments: Any, **named: Any) -> Tensor:
        bound = signature.bind(*arguments, **named)
        bound.arguments |= {
            parameter: bound.arguments[parameter].rows,
            "partition_strategy": "div",
        }
        return function(*bound.args, **bound.kwargs)

    with_shards.__signature__ = signature  # type: ignore[attr-defined]
    return with_shards


for _function, _parameter in (
    (tf.compat.v1.nn.embedding_lookup, "params"),
    (tf.compat.v1.nn.embedding_lookup_sparse, "params"),
    (tf.compat.v1.nn.safe_embedding_lookup_sparse, "embedding_weights"),
    (tf.compat.v1.nn.nce_loss, "weights"),
    (tf.compat.v1.nn.sampled_softmax_loss, "weights"),
):
    tf.experimental.dispatch_for_api(_function, {_parameter: ShardedVariable})(
        _by_rows(_function, _parameter)
    )


def create_shards(
    getter: Callable[..., Variable], name: str, shape: Sequence[int], how: Cut, **arguments: Any
) -> ShardedVariable:
    """Creates the shards of the variable `name` of `shape` through `getter`, or gets the existing
    ones.

    `arguments` are those of `get_variable`; if `reuse` is true, the initializer is not used.
    """
    initializer = arguments.pop("initializer", None)
    make = (
        None
        if arguments.get("reuse") is True
        else _initializers(initializer, name, shape, how, arguments.get("dtype"))
    )
    shards = []
    for index in range(len(how.sizes)):
        part = how.shape(tuple(shape), index)
        shard = getter(
            name=shard_name(name, index),
            shape=list(part),
            initializer=make(index) if make else None,
            **arguments,
        )
        set_slice(shard, name, list(shape), _offset(how, shape, index), list(part))
        shards.append(shard)
    return ShardedVariable(name, shape, how, shards)


def _offset(how: Cut, shape: Sequence[int], index: int) -> list[int]:
    """Where shard number `index` begins, along each axis."""
    return [how.offsets[index] if axis == how.axis else 0 for axis in range(len(shape))]


def _initializers(
    initializer: Any, name: str, shape: Sequence[int], how: Cut, dtype: Any
) -> Callable[[int], Callable[..., Tensor]]:
    """index -> initializer of that shard. Together the shards have the initial value of the
    whole."""
    dtype = tf.as_dtype(dtype or tf.float32)
    if initializer is None:
        initializer = (
            tf.compat.v1.glorot_uniform_initializer()
            if dtype.is_floating
            else tf.compat.v1.zeros_initializer()
        )
    if inspect.isclass(initializer):
        initializer = initializer()
    if callable(initializer) and tf.TensorShape(shape).num_elements() * dtype.size > _WHOLE_BYTES:
        return lambda index: _own_initializer(initializer, shape, _offset(how, shape, index), index)
    with tf.control_dependencies(None), tf.name_scope(f"{name}/Initializer/"):
        whole = (
            initializer(list(shape), dtype=dtype)
            if callable(initializer)
            else tf.convert_to_tensor(initializer, dtype)
        )
        parts = tf.split(whole, list(how.sizes), how.axis, name="parts")

    def part(index: int) -> Callable[..., Tensor]:
        return lambda shape, dtype=None, partition_info=None: tf.identity(parts[index])

    return part


class _PartitionInfo:
    """The position of a shard, for initializers that scale by the shape of the whole."""

    def __init__(self, full_shape: Sequence[int], var_offset: Sequence[int]) -> None:
        self.full_shape = list(full_shape)
        self.var_offset = list(var_offset)


def _own_initializer(
    initializer: Any, shape: Sequence[int], offset: Sequence[int], index: int
) -> Callable[..., Tensor]:
    """The initializer of one shard alone, with its own seed, since with the same seed all shards
    would be equal."""
    if getattr(initializer, "seed", None) is not None and hasattr(initializer, "get_config"):
        config = initializer.get_config()
        initializer = type(initializer).from_config({**config, "seed": config["seed"] + index})
    takes_info = "partition_info" in inspect.signature(initializer).parameters
    extra = {"partition_info": _PartitionInfo(shape, offset)} if takes_info else {}
    return lambda shape, dtype=None, partition_info=None: initializer(shape, dtype=dtype, **extra)
