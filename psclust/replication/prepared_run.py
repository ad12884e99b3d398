"""Runs of a session that are prepared once and made often: `Session.run` takes 0.2 to 0.4 ms of
Python at every call, as much as a small step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from psclust.replication.private_tensorflow import prepared_call
from psclust.replication.tf_types import Operation, Session, Tensor
from psclust.replication.wire.own_wire import own_wire


def prepare(
    session: Session, fetches: Sequence[Tensor | Operation], feeds: Sequence[Tensor] = ()
) -> Callable[..., list[Any]]:
    """A function of the values of `feeds` that runs `fetches` once and returns the values of the
    tensors among them, in order. Raises what `Session.run` raises."""
    wire = own_wire(session.graph)
    sends = wire.sends_of(session.graph, fetches, feeds) if wire else ()
    run = prepared_call(
        session,
        feeds=[tensor.name for tensor in feeds],
        fetches=[fetch.name for fetch in fetches if not isinstance(fetch, tf.Operation)],
        targets=[fetch.name for fetch in (*fetches, *sends) if isinstance(fetch, tf.Operation)],
    )
    dtypes = [tensor.dtype.as_numpy_dtype for tensor in feeds]

    def prepared(*values: Any) -> list[Any]:
        return run(*(np.asarray(value, dtype) for value, dtype in zip(values, dtypes, strict=True)))

    return prepared
