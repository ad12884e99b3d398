"""psclust's own kernels (`native/kernels.c`), and which graphs use them: for values that travel as
int8, and for shards that arrive.

Graphs are built as if every task had loaded them. A task has not if psclust was installed there
without a C compiler: it refuses the graph, which is then built again with TensorFlow's own ops.
They send the same messages and compute the same values, and take more CPU.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import tensorflow as tf

from psclust.errors import PsclustError
from psclust.runtime.kernel_library import python_ops

_IN_USE = "psclust/kernels"
# Of the server that refused a graph.
_TASK = re.compile(r"/job:(\w+)/replica:0/task:(\d+)")


class Missing(PsclustError):
    """A task has not loaded them. The graph must be built again."""

    def __init__(self, task: str) -> None:
        super().__init__(
            f"psclust's kernels are missing on {task}, so TensorFlow's ops are used. "
            "They take more CPU, for int8 about three times as much. "
            "Install gcc, and then psclust again, there or where it was sent from"
        )


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


def missing(error: Any) -> Missing | None:
    """Of the NotFoundError of a step; None for any other than of a graph that uses them where they
    are missing."""
    if "'Psclust" not in str(error.message):
        return None
    task = _TASK.search(str(error.message))
    return Missing(f"{task[1]}:{task[2]}" if task else "a task")
