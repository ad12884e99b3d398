"""Separate graph collections for every tower.

`tf.compat.v1.losses.get_total_loss` sums a collection of the whole graph, and `UPDATE_OPS` and
`SUMMARIES` are such collections too: in the second tower of a graph they would also hold the first
tower's ops. Variables are shared between towers and stay visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from psclust.replication.tf_types import Variable

_KEYS = tf.compat.v1.GraphKeys
# Initialization of a session belongs to the whole graph.
_SHARED = frozenset(
    {
        _KEYS.TABLE_INITIALIZERS,
        _KEYS.INIT_OP,
        _KEYS.LOCAL_INIT_OP,
        _KEYS.READY_OP,
        _KEYS.READY_FOR_LOCAL_INIT_OP,
    }
)


@contextmanager
def own_collections() -> Iterator[None]:
    """Hides the tensors and ops in the collections of the current graph, and adds them again at the
    end."""
    graph = tf.compat.v1.get_default_graph()
    hidden: dict[Any, list[Any]] = {}
    for key in graph.get_all_collection_keys():
        items = graph.get_collection_ref(key)
        if key not in _SHARED and any(
            isinstance(item, (tf.Tensor, tf.Operation)) for item in items
        ):
            hidden[key] = [item for item in items if isinstance(item, (tf.Tensor, tf.Operation))]
            items[:] = [item for item in items if not isinstance(item, (tf.Tensor, tf.Operation))]
    try:
        yield
    finally:
        for key, items in hidden.items():
            graph.get_collection_ref(key).extend(items)


def regularize_every_tower() -> Callable[..., Variable]:
    """A `custom_getter` for the variable scope of one tower, which adds the regularization loss of
    every variable to REGULARIZATION_LOSSES. `get_variable` does so only when it creates the
    variable, so only the first tower would have the loss, and the mean over towers a fraction of
    it."""
    seen = set()

    def regularized(
        getter: Callable[..., Variable], name: str, *args: Any, **kwargs: Any
    ) -> Variable:
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
