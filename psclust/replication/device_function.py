"""Which device every op of a replicated graph is put on.

Variables go to the ps tasks that a strategy names, by default round robin in order of creation, through TensorFlow's own
`replica_device_setter`; everything else goes to the replica's worker. Two things are done differently from a bare setter. Local
variables (metrics, for example) stay on their worker: the setter would put them on a ps, under one name for all workers, which then
overwrite each other's counts. And a model's variables alone are counted: what the optimizer creates follows its variable or sits on the
first ps, so the same model is placed the same way whatever optimizer trains it.

In one process with several devices the variables are on its CPU, and the rest of each tower on the tower's device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import tensorflow as tf

from psclust.replication.device_layout import Layout, host_of


class Strategy(Protocol):
    """Which ps holds a variable (`psclust.replication.variables.places.Places`)."""

    def __call__(self, op: Any, /) -> int:
        """The ps of an op that `replica_device_setter` puts on one."""

    def getter(self) -> Callable[..., Any]:
        """The `custom_getter` of one replica's variable scope."""


def is_slot(variable: Any) -> bool:
    """Whether an optimizer has made `variable` beside another one, whose device it shares."""
    return any(group != f"loc:@{variable.op.name}".encode() for group in variable.op.colocation_groups())


@contextmanager
def replica_scope(layout: Layout, worker: str, strategy: Strategy) -> Iterator[None]:
    """Ops built inside belong to the replica on device `worker`; global variables go where `strategy` says."""
    host = host_of(worker)
    setter = tf.compat.v1.train.replica_device_setter(
        ps_tasks=layout.ps or 1, ps_device="/job:ps" if layout.ps else host, worker_device=worker, ps_strategy=strategy
    )

    def keep_local(next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        if tf.compat.v1.GraphKeys.LOCAL_VARIABLES not in (kwargs.get("collections") or ()):
            return next_creator(**kwargs)
        with tf.device(host):
            return next_creator(**kwargs)

    variables = tf.compat.v1.variable_scope(tf.compat.v1.get_variable_scope(), custom_getter=strategy.getter())
    with tf.compat.v1.device(setter if layout.ps or host != worker else worker), tf.compat.v1.variable_creator_scope(keep_local), variables:
        yield
