"""Ending a training whose numbers are no longer finite, in one sentence, with the last good checkpoint still there.

Three looks, each where it costs nothing that is not being done anyway: at the loss that every step hands back; with
`nan_guard='gradients'` at every gradient before it is applied, by an op of the update itself; and at every variable before a checkpoint
is written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from psclust.errors import NotFiniteError
from psclust.replication.update import NOT_FINITE

_REPORT = re.compile(NOT_FINITE + r" step=(\d+) variables=([^;]*);")
_HINT = "lower the learning rate, set clip_norm, or look at the input; training again goes on from the last checkpoint"


def check_loss(guard: str, step: int, loss: float) -> None:
    """Raises NotFiniteError for a loss that is not finite, unless the guard is off."""
    if guard != "off" and not math.isfinite(loss):
        raise NotFiniteError(f"step {step}: the loss is {loss}; {_HINT}")


def gradients_error(error: Any) -> NotFiniteError | None:
    """What the update has refused, as a sentence; None for any other error of TensorFlow."""
    found = _REPORT.search(str(error.message))
    if found is None:
        return None
    step, names = found.groups()
    return NotFiniteError(f"step {step}: the gradient of {names} is not finite, and was not applied; {_HINT}")


class FiniteCheck:
    """Looks at the floating-point variables among `variables`, where they are; adds its op to the current graph."""

    def __init__(self, variables: Sequence[Any], guard: str) -> None:
        floating = [variable for variable in variables if variable.dtype.base_dtype.is_floating] if guard != "off" else []
        self._names = [variable.op.name for variable in floating]
        with tf.name_scope("finite"):
            self._flags = [_is_finite(variable) for variable in floating]

    def check(self, session: Any, step: int) -> None:
        """Raises NotFiniteError where a variable has a value that is not finite."""
        if self._flags:
            bad = [name for name, finite in zip(self._names, session.run(self._flags), strict=True) if not finite]
            if bad:
                raise NotFiniteError(f"step {step}: {', '.join(bad)} has values that are not finite, and no checkpoint is written; {_HINT}")


def _is_finite(variable: Any) -> Any:
    with tf.device(variable.device):
        return tf.reduce_all(tf.math.is_finite(variable.read_value()))
