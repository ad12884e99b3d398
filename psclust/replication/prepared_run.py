"""Runs of a session that are prepared once and made often.

`Session.make_callable` of a function with feeds, even of none, does all that `Session.run` does at
every call: 0.2 to 0.4 ms of Python, as much as a small step takes. What it has in C++
(`CallableOptions`, `Session::MakeCallable`) does it once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2

from psclust.replication.tf_types import Operation, Session, Tensor
from psclust.replication.wire.own_wire import own_wire


def prepare(
    session: Session, fetches: Sequence[Tensor | Operation], feeds: Sequence[Tensor] = ()
) -> Callable[..., list[Any]]:
    """A function of the values of `feeds` that runs `fetches` once and returns the values of the
    tensors among them, in order. Raises what `Session.run` raises."""
    wire = own_wire(session.graph)
    sends = wire.sends_of(session.graph, fetches, feeds) if wire else ()
    options = config_pb2.CallableOptions(
        feed=[tensor.name for tensor in feeds],
        fetch=[fetch.name for fetch in fetches if not isinstance(fetch, tf.Operation)],
        target=[fetch.name for fetch in (*fetches, *sends) if isinstance(fetch, tf.Operation)],
    )
    dtypes = [tensor.dtype.as_numpy_dtype for tensor in feeds]
    # TensorFlow's Python has no public name for it, nor for how `run` finds the op of an error.
    run, called = session._make_callable_from_options(options), session._do_call

    def prepared(*values: Any) -> list[Any]:
        found: list[Any] = called(
            run, *(np.asarray(value, dtype) for value, dtype in zip(values, dtypes, strict=True))
        )
        return found

    return prepared
