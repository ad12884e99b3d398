"""The variables of a model, learned by building it once aside: for a placement that must not depend on the order in which they are made,
and for the table of `psclust plan`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from psclust.placement.partition import cut
from psclust.placement.policy import ROUND_ROBIN, place
from psclust.placement.variable import Variable
from psclust.replication.devices import LOCAL, Layout
from psclust.replication.model import Model
from psclust.replication.places import Places, divisible_shape
from psclust.replication.state import create_state
from psclust.replication.tower import Tower, build_tower


class _Divisible:
    """Notes which variables could be cut, and places none."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def __call__(self, _op: Any) -> int:
        return 0

    def getter(self) -> Callable[..., Any]:
        def get(getter: Callable[..., Any], name: str, **arguments: Any) -> Any:
            if divisible_shape(arguments) is not None:
                self.names.add(name)
            return getter(name=name, **arguments)

        return get


def survey(model: Model) -> list[Variable]:
    """The global variables that one replica of `model` creates for training, in order. Slots, which follow their variables, are not among
    them, nor what psclust keeps itself. Raises UsageError where the user's functions break their contract."""
    seen = _Divisible()
    with tf.Graph().as_default():
        state = create_state(LOCAL)
        optimizer = model.optimizer(state.global_step)
        before = {variable.ref() for variable in tf.compat.v1.global_variables()}
        tower = build_tower(model, optimizer, LOCAL, seen, 0)
        made = [variable for variable in tf.compat.v1.global_variables() if variable.ref() not in before]
        return [_describe(variable, tower, seen.names) for variable in made]


def places_for(model: Model, layout: Layout) -> Places:
    """Where the variables of `model` go in `layout`, the same in every client. Raises UsageError for an impossible pin."""
    policy = layout.policy
    if policy.kind == ROUND_ROBIN or layout.ps < 2:
        return Places(layout.ps, policy)
    return Places(layout.ps, policy, place(cut(survey(model), policy.max_shard_bytes), layout.ps, policy))


def identity(variable: Any) -> Variable:
    """What a variable of a graph is to every other graph: name, shape and dtype."""
    shape = variable.shape.as_list() if variable.shape.rank is not None else []
    return Variable(variable.op.name, tuple(size or 0 for size in shape), variable.dtype.base_dtype.name)


def _describe(variable: Any, tower: Tower, divisible: set[str]) -> Variable:
    known = identity(variable)
    gradient = next((gradient for gradient, trained in tower.gradients if trained is variable), None)
    sparse = isinstance(gradient, tf.IndexedSlices)
    rows = gradient.indices.shape.num_elements() if gradient is not None and sparse else None
    return Variable(known.name, known.shape, known.dtype, gradient is not None, sparse, rows, known.name in divisible)
