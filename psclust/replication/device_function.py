"""The device of every op of a replicated graph.

TensorFlow's `replica_device_setter` puts variables on the ps that a strategy names, and all other ops on the replica's worker. Two things
differ from a bare setter. Local variables (metrics) stay on their worker: the setter would put them on a ps, under one name for all
workers, which would overwrite each other's counts. And only the model's variables count: slots follow their variable, so a model is placed
the same way whatever optimizer trains it.

In one process with several devices, variables are on its CPU and the rest of each tower is on the tower's device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import tensorflow as tf

from psclust.replication.device_layout import DeviceLayout, host_of
from psclust.replication.tf_types import Operation, Variable


class Strategy(Protocol):
    """Which ps holds a variable. The one implementation is `psclust.replication.variables.places.Places`."""

    def __call__(self, op: Operation, /) -> int:
        """The ps of an op that `replica_device_setter` puts on one."""

    def getter(self) -> Callable[..., Variable]:
        """A `custom_getter` for the variable scope of one replica."""

    def settle(self) -> None:
        """Called when the first tower is complete, and so all variables exist."""


def is_slot(variable: Variable) -> bool:
    """Whether `variable` is an optimizer's slot, which is colocated with another variable."""
    return any(group != f"loc:@{variable.op.name}".encode() for group in variable.op.colocation_groups())


@contextmanager
def replica_scope(layout: DeviceLayout, worker: str, strategy: Strategy) -> Iterator[None]:
    """Puts ops built inside on device `worker`, and global variables on the ps that `strategy` names."""
    host = host_of(worker)
    setter = tf.compat.v1.train.replica_device_setter(
        ps_tasks=layout.ps or 1, ps_device="/job:ps" if layout.ps else host, worker_device=worker, ps_strategy=strategy
    )

    def keep_local(next_creator: Callable[..., Variable], **kwargs: Any) -> Variable:
        if tf.compat.v1.GraphKeys.LOCAL_VARIABLES not in (kwargs.get("collections") or ()):
            return next_creator(**kwargs)
        with tf.device(host):
            return next_creator(**kwargs)

    variables = tf.compat.v1.variable_scope(tf.compat.v1.get_variable_scope(), custom_getter=strategy.getter())
    with tf.compat.v1.device(setter if layout.ps or host != worker else worker), tf.compat.v1.variable_creator_scope(keep_local), variables:
        yield
