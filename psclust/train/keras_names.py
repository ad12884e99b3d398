"""The names of Keras 3's layers in the graphs of a program."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_COUNTERS = "object_name_uids"


@contextmanager
def layers_named_anew() -> Iterator[None]:
    """Within it, Keras 3 names its layers as if it had made none: `dense`, `dense_1`.

    It counts the layers of the whole process, where Keras 2 and TensorFlow's own layers count those
    of a graph. The second graph of a program, for its evaluation, would name its variables
    `dense_2`, which no checkpoint has."""
    state = _state()
    if state is None:
        yield
        return
    before = state.get_global_attribute(_COUNTERS)
    state.set_global_attribute(_COUNTERS, defaultdict(int))
    try:
        yield
    finally:
        state.set_global_attribute(_COUNTERS, before)


def _state() -> Any:
    """Keras's own settings of this thread; None until Keras 3 is imported, and in a Keras that
    keeps them otherwise: layers have then the names that it gives them."""
    state = sys.modules.get("keras.src.backend.common.global_state")
    return (
        state
        if hasattr(state, "get_global_attribute") and hasattr(state, "set_global_attribute")
        else None
    )
