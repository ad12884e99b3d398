"""The device of every op of a replicated graph.

TensorFlow's `replica_device_setter` puts variables on the ps that a strategy names, and all other
ops on the replica's worker. Two things differ from a bare setter. Local variables (metrics) stay on
their worker: the setter would put them on a ps, under one name for all workers, which would
overwrite each other's counts. And only the model's variables count: slots follow their variable, so
a model is placed the same way whatever optimizer trains it.

In one process with several devices, variables are on its CPU and the rest of each tower is on the
tower's device.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import tensorflow as tf

from psclust.replication.device_layout import DeviceLayout, host_of
from psclust.replication.tf_types import Variable
from psclust.replication.variables.places import Places

# The name scope of the ops of a tower is this and its number.
TOWER_SCOPE = "tower_"
_OF_TOWER = re.compile(rf"{TOWER_SCOPE}\d+(?:/|$)")


def is_slot(variable: Variable) -> bool:
    """Whether `variable` is an optimizer's slot, which is colocated with another variable."""
    return any(
        group != f"loc:@{variable.op.name}".encode() for group in variable.op.colocation_groups()
    )


@contextmanager
def replica_scope(layout: DeviceLayout, worker: str, strategy: Places) -> Iterator[None]:
    """Puts ops built inside on device `worker`, and global variables on the ps that `strategy`
    names.

    `tf.Variable` and Keras name a variable by the current name scope. The scope of the tower is
    left out: a checkpoint has the same names in every replication, and the graph that evaluates it
    has no tower."""
    host = host_of(worker)
    setter = tf.compat.v1.train.replica_device_setter(
        ps_tasks=layout.ps or 1,
        ps_device="/job:ps" if layout.ps else host,
        worker_device=worker,
        ps_strategy=strategy,
    )

    def create(next_creator: Callable[..., Variable], **kwargs: Any) -> Variable:
        is_local = tf.compat.v1.GraphKeys.LOCAL_VARIABLES in (kwargs.get("collections") or ())
        with tf.device(host) if is_local else _outside_the_tower():
            return next_creator(**kwargs)

    variables = tf.compat.v1.variable_scope(
        tf.compat.v1.get_variable_scope(), custom_getter=strategy.getter()
    )
    with (
        tf.compat.v1.device(setter if layout.ps or host != worker else worker),
        tf.compat.v1.variable_creator_scope(create),
        variables,
    ):
        yield


def _outside_the_tower() -> AbstractContextManager[object]:
    """The current name scope without that of the tower."""
    scope = tf.compat.v1.get_default_graph().get_name_scope()
    tower = _OF_TOWER.match(scope)
    if tower is None:
        return nullcontext()
    inner = scope[tower.end() :]
    return tf.name_scope(f"{inner}/" if inner else "")
