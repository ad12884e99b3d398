"""Graph collections of one tower: what a model collects is its own tower's.

`tf.compat.v1.losses.get_total_loss` adds up a collection of the whole graph, and `UPDATE_OPS` and `SUMMARIES` are such collections too;
in the second tower of a graph they would hold what the first one put in. Variables are shared between towers and stay visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

_KEYS = tf.compat.v1.GraphKeys
# What prepares a session belongs to the whole graph.
_SHARED = frozenset({_KEYS.TABLE_INITIALIZERS, _KEYS.INIT_OP, _KEYS.LOCAL_INIT_OP, _KEYS.READY_OP, _KEYS.READY_FOR_LOCAL_INIT_OP})


@contextmanager
def own_collections() -> Iterator[None]:
    """Inside, collections of the current graph hold no tensor and no op from outside; afterwards they hold both."""
    graph = tf.compat.v1.get_default_graph()
    hidden: dict[Any, list[Any]] = {}
    for key in graph.get_all_collection_keys():
        items = graph.get_collection_ref(key)
        if key not in _SHARED and any(isinstance(item, (tf.Tensor, tf.Operation)) for item in items):
            hidden[key] = [item for item in items if isinstance(item, (tf.Tensor, tf.Operation))]
            items[:] = [item for item in items if not isinstance(item, (tf.Tensor, tf.Operation))]
    try:
        yield
    finally:
        for key, items in hidden.items():
            graph.get_collection_ref(key).extend(items)


def regularize_every_tower() -> Callable[..., Any]:
    """A custom getter for `variable_scope`, one for each tower, that puts the regularization loss of every variable into the tower's
    REGULARIZATION_LOSSES. `get_variable` does so only where it creates the variable, so the losses of all but the first tower would lack
    it, and the mean over towers would have a part of it only."""
    seen = set()

    def regularized(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        regularizer = kwargs.pop("regularizer", None)
        variable = getter(name, *args, regularizer=None, **kwargs)
        if regularizer is not None and name not in seen:
            seen.add(name)
            for part in variable if hasattr(variable, "as_tensor") else [variable]:
                with tf.name_scope(f"{part.op.name}/Regularizer/"), tf.device(part.device):
                    loss = regularizer(part)
                if loss is not None:
                    tf.compat.v1.add_to_collection(_KEYS.REGULARIZATION_LOSSES, loss)
        return variable

    return regularized
