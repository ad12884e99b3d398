"""Descriptions of the variables in a graph, by which other graphs, `plan` and the placement know
them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import tensorflow as tf

from psclust.placement.partition import Cut
from psclust.placement.variable import Variable
from psclust.replication import tf_types
from psclust.replication.gradients import GradientsAndVariables
from psclust.replication.private_tensorflow import slice_of

# The graph collection of the names of variables that could be partitioned.
DIVISIBLE = "psclust/divisible"


def identity(variable: tf_types.Variable) -> Variable:
    """The name, shape and dtype of `variable`, by which other graphs know it."""
    shape = variable.shape.as_list() if variable.shape.rank is not None else []
    return Variable(
        variable.op.name, tuple(size or 0 for size in shape), variable.dtype.base_dtype.name
    )


def ps_of(variable: tf_types.Variable) -> int:
    """The index of the ps that holds `variable`."""
    return int(tf.DeviceSpec.from_string(variable.device).task or 0)


def describe(
    variables: Sequence[tf_types.Variable], gradients: GradientsAndVariables, *, train_op: bool
) -> list[Variable]:
    """The `variables` that a tower created in the current graph, in order; a partitioned one as a
    whole. gradients: of the tower, which has none with a train_op of its own."""
    divisible = set(tf.compat.v1.get_collection(DIVISIBLE))
    by_variable = {variable.ref(): gradient for gradient, variable in gradients}
    wholes: dict[str, Variable] = {}
    for variable in variables:
        known = _with_gradient(identity(variable), by_variable.get(variable.ref()))
        if train_op:
            known = replace(known, trained=variable.trainable, sparse=None)
        slice_info = slice_of(variable)
        if slice_info is not None:
            known = replace(known, name=slice_info.full_name, shape=tuple(slice_info.full_shape))
        wholes[known.name] = replace(known, divisible=known.name in divisible)
    return list(wholes.values())


def pieces(variables: Sequence[tf_types.Variable]) -> list[tuple[Variable, int]]:
    """(description, ps index) of every variable or shard."""
    return [(identity(variable), ps_of(variable)) for variable in variables]


def _with_gradient(variable: Variable, gradient: tf_types.Gradient | None) -> Variable:
    if not isinstance(gradient, tf.IndexedSlices):
        return replace(variable, trained=gradient is not None, sparse=False)
    return replace(variable, trained=True, sparse=True, rows=gradient.indices.shape.num_elements())


def cuts_of(variables: Sequence[tf_types.Variable]) -> dict[str, Cut]:
    """The cut of every variable of which `variables` has shards, by name."""
    sizes: dict[str, list[int]] = {}
    axes: dict[str, int] = {}
    for variable in variables:
        info = slice_of(variable)
        lengths = zip(info.var_shape, info.full_shape, strict=True) if info is not None else ()
        for axis, (part, whole) in enumerate(lengths):
            if part != whole:
                axes[info.full_name] = axis
                sizes.setdefault(info.full_name, []).append(part)
                break
    return {name: Cut(axes[name], tuple(each)) for name, each in sizes.items()}
