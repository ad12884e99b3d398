"""A dry build: the model is built once in a graph that is thrown away, to learn the variables that
`psclust plan` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import tensorflow as tf

from psclust.placement.variable import Variable
from psclust.replication import tf_types
from psclust.replication.device_layout import LOCAL
from psclust.replication.model import Model
from psclust.replication.private_tensorflow import slice_of
from psclust.replication.towers.tower import Tower, build_tower
from psclust.replication.towers.tower_kind import TowerKind
from psclust.replication.variables.places import DIVISIBLE, Places
from psclust.replication.variables.training_state import create_state


def dry_build(model: Model) -> list[Variable]:
    """The global variables that one replica of `model` creates for training, in order, without
    optimizer slots and psclust's own. Raises UsageError if the user's functions break their
    contract."""
    with tf.Graph().as_default():
        state = create_state(LOCAL)
        tower = build_tower(
            model, model.optimizer(state.global_step), LOCAL, Places(1), 0, TowerKind.alone()
        )
        return describe(tower)


def identity(variable: tf_types.Variable) -> Variable:
    """The name, shape and dtype of `variable`, by which other graphs know it."""
    shape = variable.shape.as_list() if variable.shape.rank is not None else []
    return Variable(
        variable.op.name, tuple(size or 0 for size in shape), variable.dtype.base_dtype.name
    )


def ps_of(variable: tf_types.Variable) -> int:
    """The index of the ps that holds `variable`."""
    return int(tf.DeviceSpec.from_string(variable.device).task or 0)


def describe(tower: Tower) -> list[Variable]:
    """The variables that `tower` created in the current graph, in order; a partitioned one as a
    whole."""
    divisible = set(tf.compat.v1.get_collection(DIVISIBLE))
    gradients = {variable.ref(): gradient for gradient, variable in tower.gradients}
    wholes: dict[str, Variable] = {}
    for variable in tower.variables:
        known = _with_gradient(identity(variable), gradients.get(variable.ref()))
        if tower.spec.train_op is not None:
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
