"""psclust's own kernels for values that travel as int8 (`runtime/wire_kernels.c`), and which graphs use them.

A graph may use them if every task has loaded them that it runs on. Where one has not, because psclust was installed without a C compiler,
the graphs have TensorFlow's own ops, which send the same messages and take three times the CPU.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import tensorflow as tf

from psclust.errors import PsclustError
from psclust.replication.tf_types import Operation, Tensor
from psclust.runtime.wire_kernels import python_ops

_IN_USE = "psclust/kernels"
# Of the server that refused a graph.
_PLACE = re.compile(r"/job:(\w+)/replica:0/task:(\d+)")


class Lost(PsclustError):
    """A task has been started again without them. The graph must be built again."""

    def __init__(self, task: str) -> None:
        super().__init__(f"{task} has come back without psclust's kernels; int8 takes about three times the CPU from now on")


@cache
def loaded() -> Any:
    """The ops of the kernels, a module; None if this process cannot have them."""
    return python_ops()


def use() -> None:
    """Makes the current graph use them: `in_use` gives them from now on."""
    assert loaded() is not None
    if in_use() is None:
        tf.compat.v1.add_to_collection(_IN_USE, loaded())


def in_use() -> Any:
    """The ops that the current graph is to use; None: TensorFlow's."""
    return next(iter(tf.compat.v1.get_collection(_IN_USE)), None)


def trial(device: str) -> tuple[Operation, Tensor]:
    """(an op on the device, which runs only if its task has the kernels; what has to be fed to it, int8 [8])."""
    message = tf.compat.v1.placeholder(tf.int8, [8])
    with tf.device(device):
        return loaded().psclust_decode(message, count=4, block=4).op, message


def lost(error: Any) -> Lost | None:
    """Of the NotFoundError of a step; None for any other than of a graph that uses them where they are missing now."""
    if "'Psclust" not in str(error.message):
        return None
    place = _PLACE.search(str(error.message))
    return Lost(f"{place[1]}:{place[2]}" if place else "a task")
