"""Which device every op of a replicated graph is put on.

Variables go to the ps tasks round robin in order of creation, through TensorFlow's own `replica_device_setter`; everything else goes to
the replica's worker. Two things are done differently from a bare setter. Local variables (metrics, for example) stay on their worker: the
setter would put them on a ps, under one name for all workers, which then overwrite each other's counts. And a model's variables alone
are counted: what the optimizer creates follows its variable or sits on the first ps, so the same model is placed the same way
whatever optimizer trains it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from psclust.replication.layout import Layout

Strategy = Callable[[Any], int]


class RoundRobin:
    """A `ps_strategy` that deals variables out in order of creation. One object is shared by all towers of a graph, which reuse each
    other's variables, so that every variable is counted once."""

    def __init__(self, ps: int) -> None:
        self._ps = ps
        self._count = 0

    def __call__(self, _op: Any) -> int:
        index = self._count % self._ps
        self._count += 1
        return index


@contextmanager
def replica_scope(layout: Layout, worker: str, strategy: Strategy) -> Iterator[None]:
    """Ops built inside belong to the replica on device `worker`; global variables go where `strategy` says."""
    setter = tf.compat.v1.train.replica_device_setter(ps_tasks=layout.ps, ps_device="/job:ps", worker_device=worker, ps_strategy=strategy)

    def keep_local(next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        if tf.compat.v1.GraphKeys.LOCAL_VARIABLES not in (kwargs.get("collections") or ()):
            return next_creator(**kwargs)
        with tf.device(worker):
            return next_creator(**kwargs)

    with tf.compat.v1.device(setter if layout.ps else worker), tf.compat.v1.variable_creator_scope(keep_local):
        yield
