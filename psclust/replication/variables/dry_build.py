"""The variables of a model, learned by building it once aside: for a placement that must not depend on the order in which they are made,
and for the table of `psclust plan`. And what the variables of a graph are to other graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf

from psclust.placement.partition import partition
from psclust.placement.policy import ROUND_ROBIN, place
from psclust.placement.variable import Variable
from psclust.replication.device_layout import LOCAL, Layout
from psclust.replication.model import Model
from psclust.replication.towers.tower import Tower, build_tower
from psclust.replication.towers.tower_kind import TowerKind
from psclust.replication.variables.places import DIVISIBLE, Places
from psclust.replication.variables.training_state import create_state


def dry_build(model: Model) -> list[Variable]:
    """The global variables that one replica of `model` creates for training, in order. Slots, which follow their variables, are not among
    them, nor what psclust keeps itself. Raises UsageError where the user's functions break their contract."""
    with tf.Graph().as_default():
        state = create_state(LOCAL)
        tower = build_tower(model, model.optimizer(state.global_step), LOCAL, Places(1), 0, TowerKind.alone())
        return describe(tower)


def places_for(model: Model, layout: Layout) -> Places:
    """Where the variables of `model` go in `layout`, the same in every client. Raises UsageError for an impossible pin."""
    policy = layout.policy
    if layout.placed is not None:
        return Places(layout.ps, policy, layout.placed)
    if policy.kind == ROUND_ROBIN or layout.ps < 2:
        return Places(layout.ps, policy)
    return Places(layout.ps, policy, place(partition(dry_build(model), policy.max_shard_bytes), layout.ps, policy))


def identity(variable: Any) -> Variable:
    """What a variable of a graph is to every other graph: name, shape and dtype."""
    shape = variable.shape.as_list() if variable.shape.rank is not None else []
    return Variable(variable.op.name, tuple(size or 0 for size in shape), variable.dtype.base_dtype.name)


def ps_of(variable: Any) -> int:
    """The index of the ps that holds a variable."""
    return int(tf.DeviceSpec.from_string(variable.device).task or 0)


def describe(tower: Tower) -> list[Variable]:
    """The variables that a tower has made in the current graph, in order, each whole where it is cut."""
    divisible = set(tf.compat.v1.get_collection(DIVISIBLE))
    gradients = {variable.ref(): gradient for gradient, variable in tower.gradients}
    wholes: dict[str, Variable] = {}
    for variable in tower.variables:
        known = _with_gradient(identity(variable), gradients.get(variable.ref()))
        if tower.spec.train_op is not None:
            known = replace(known, trained=variable.trainable, sparse=None)
        slice_info = variable._get_save_slice_info()
        if slice_info is not None:
            known = replace(known, name=slice_info.full_name, shape=tuple(slice_info.full_shape))
        wholes[known.name] = replace(known, divisible=known.name in divisible)
    return list(wholes.values())


def pieces(variables: Sequence[Any]) -> list[tuple[Variable, int]]:
    """Every variable or shard of a graph, and the ps that holds it."""
    return [(identity(variable), ps_of(variable)) for variable in variables]


def _with_gradient(variable: Variable, gradient: Any) -> Variable:
    if not isinstance(gradient, tf.IndexedSlices):
        return replace(variable, trained=gradient is not None, sparse=False)
    return replace(variable, trained=True, sparse=True, rows=gradient.indices.shape.num_elements())
