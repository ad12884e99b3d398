"""A variable that is cut into shards along axis 0, and looks whole to the model.

TensorFlow's own `PartitionedVariable` is nearly that. What is added: `tf.gather` and every `embedding_lookup` read the rows they need from
the shards that have them, whatever partition strategy the caller names (TensorFlow's default in `compat.v1`, `mod`, would number the rows
anew, and a model would mean another row with each way of cutting); the whole value is put together once in each replica, however often
the model uses it; operators work; and the initial value does not depend on where the cuts are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.ops.variables import PartitionedVariable
from tensorflow.python.util.dispatch import register_dispatchable_type

from psclust.placement.partition import shard_name

# A value up to this size is made whole once and dealt out; of a larger one, every shard is initialized where it is.
_WHOLE_BYTES = 1 << 28


@register_dispatchable_type
class ShardedVariable(PartitionedVariable):
    """What `get_variable` returns for a variable that is cut. Iterating gives its shards, in order of their rows."""

    def __init__(self, name: str, shape: Sequence[int], shards: Sequence[Any]) -> None:
        super().__init__(name, list(shape), shards[0].dtype.base_dtype, list(shards), [len(shards)] + [1] * (len(shape) - 1))
        self._graph = tf.compat.v1.get_default_graph()
        self._value: Any = None

    @property
    def shards(self) -> list[Any]:
        return list(self)

    def get_shape(self) -> Any:
        return tf.TensorShape(self._shape)

    def sparse_read(self, indices: Any, name: str | None = None) -> Any:
        """The rows at `indices`, int [any]: [any, *shape[1:]]. `tf.gather` calls this."""
        return tf.compat.v1.nn.embedding_lookup(self.shards, indices, "div", name=name)

    def as_tensor(self) -> Any:
        graph = tf.compat.v1.get_default_graph()
        if graph is not self._graph or graph._get_control_flow_context() is not None:
            return super().as_tensor()
        if self._value is None:
            self._value = super().as_tensor()
        return self._value

    def value(self) -> Any:
        return self.as_tensor()

    def read_value(self) -> Any:
        return self._concat()

    @property
    def initializer(self) -> Any:
        return tf.group(*[shard.initializer for shard in self])


def _operator(name: str) -> Callable[..., Any]:
    def apply(self: ShardedVariable, *arguments: Any) -> Any:
        return getattr(self.as_tensor(), name)(*arguments)

    return apply


for _name in tf.Tensor.OVERLOADABLE_OPERATORS - {"__eq__", "__ne__", "__len__", "__iter__"}:
    setattr(ShardedVariable, _name, _operator(_name))


def _embedding_lookup(
    params: Any, ids: Any, partition_strategy: str = "mod", name: Any = None, validate_indices: bool = True, max_norm: Any = None
) -> Any:
    return tf.compat.v1.nn.embedding_lookup(params.shards, ids, "div", name, validate_indices, max_norm)


def _embedding_lookup_sparse(
    params: Any,
    sp_ids: Any,
    sp_weights: Any,
    partition_strategy: str = "mod",
    name: Any = None,
    combiner: Any = None,
    max_norm: Any = None,
    allow_fast_lookup: bool = False,
) -> Any:
    lookup = tf.compat.v1.nn.embedding_lookup_sparse
    return lookup(params.shards, sp_ids, sp_weights, "div", name, combiner, max_norm, allow_fast_lookup)


def _safe_embedding_lookup_sparse(
    embedding_weights: Any,
    sparse_ids: Any,
    sparse_weights: Any = None,
    combiner: Any = "mean",
    default_id: Any = None,
    name: Any = None,
    partition_strategy: str = "div",
    max_norm: Any = None,
    allow_fast_lookup: bool = False,
) -> Any:
    lookup = tf.compat.v1.nn.safe_embedding_lookup_sparse
    return lookup(embedding_weights.shards, sparse_ids, sparse_weights, combiner, default_id, name, "div", max_norm, allow_fast_lookup)


def _by_rows(loss: Callable[..., Any]) -> Callable[..., Any]:
    """`loss`, which looks rows up in `weights` by a `partition_strategy`, with the only one that shards know."""
    signature = inspect.signature(loss)

    def by_rows(*arguments: Any, **named: Any) -> Any:
        bound = signature.bind(*arguments, **named)
        bound.arguments |= {"weights": bound.arguments["weights"].shards, "partition_strategy": "div"}
        return loss(*bound.args, **bound.kwargs)

    by_rows.__signature__ = signature  # type: ignore[attr-defined]
    return by_rows


tf.experimental.dispatch_for_api(tf.compat.v1.nn.embedding_lookup, {"params": ShardedVariable})(_embedding_lookup)
for _loss in (tf.compat.v1.nn.nce_loss, tf.compat.v1.nn.sampled_softmax_loss):
    tf.experimental.dispatch_for_api(_loss, {"weights": ShardedVariable})(_by_rows(_loss))
tf.experimental.dispatch_for_api(tf.compat.v1.nn.embedding_lookup_sparse, {"params": ShardedVariable})(_embedding_lookup_sparse)
tf.experimental.dispatch_for_api(tf.compat.v1.nn.safe_embedding_lookup_sparse, {"embedding_weights": ShardedVariable})(
    _safe_embedding_lookup_sparse
)


def create_shards(getter: Callable[..., Any], name: str, shape: Sequence[int], rows: Sequence[int], **arguments: Any) -> ShardedVariable:
    """Makes the shards of the variable `name` through `getter`, `rows[i]` rows each, or gets those that exist.

    `arguments` are those of `get_variable`. With `reuse` true the initializer is not used.
    """
    initializer = arguments.pop("initializer", None)
    make = None if arguments.get("reuse") is True else _initializers(initializer, name, shape, rows, arguments.get("dtype"))
    shards, above = [], 0
    for index, count in enumerate(rows):
        part = [count, *shape[1:]]
        shard = getter(name=shard_name(name, index), shape=part, initializer=make(index) if make else None, **arguments)
        offset = [above] + [0] * (len(shape) - 1)
        shard._set_save_slice_info(tf.Variable.SaveSliceInfo(name, list(shape), offset, part))
        shards.append(shard)
        above += count
    return ShardedVariable(name, shape, shards)


def _initializers(initializer: Any, name: str, shape: Sequence[int], rows: Sequence[int], dtype: Any) -> Callable[[int], Any]:
    """index -> initializer of that shard; the shards together have the value that the whole would have."""
    dtype = tf.as_dtype(dtype or tf.float32)
    if initializer is None:
        initializer = tf.compat.v1.glorot_uniform_initializer() if dtype.is_floating else tf.compat.v1.zeros_initializer()
    if inspect.isclass(initializer):
        initializer = initializer()
    if callable(initializer) and tf.TensorShape(shape).num_elements() * dtype.size > _WHOLE_BYTES:
        return lambda index: _own_initializer(initializer, shape, sum(rows[:index]), index)
    with tf.control_dependencies(None), tf.name_scope(f"{name}/Initializer/"):
        whole = initializer(list(shape), dtype=dtype) if callable(initializer) else tf.convert_to_tensor(initializer, dtype)
        parts = tf.split(whole, list(rows), name="parts")

    def part(index: int) -> Callable[..., Any]:
        return lambda shape, dtype=None, partition_info=None: tf.identity(parts[index])

    return part


class _PartitionInfo:
    """Where a shard lies, as initializers that scale by the whole shape want to know."""

    def __init__(self, full_shape: Sequence[int], var_offset: Sequence[int]) -> None:
        self.full_shape = list(full_shape)
        self.var_offset = list(var_offset)


def _own_initializer(initializer: Any, shape: Sequence[int], above: int, index: int) -> Callable[..., Any]:
    """A shard's own: with a seed of its own where the initializer has one, or all shards would start alike."""
    if getattr(initializer, "seed", None) is not None and hasattr(initializer, "get_config"):
        config = initializer.get_config()
        initializer = type(initializer).from_config({**config, "seed": config["seed"] + index})
    takes_info = "partition_info" in inspect.signature(initializer).parameters
    extra = {"partition_info": _PartitionInfo(shape, [above] + [0] * (len(shape) - 1))} if takes_info else {}
    return lambda shape, dtype=None, partition_info=None: initializer(shape, dtype=dtype, **extra)
