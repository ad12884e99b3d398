"""Ends a training whose numbers are no longer finite, with one sentence and the last good checkpoint still there.

Three checks, each on values that are at hand anyway: the loss that every step returns; with `nan_guard='gradients'`, every gradient before
it is applied, by an op of the update; and every variable before a checkpoint is written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from psclust.errors import NotFiniteError
from psclust.replication.update.apply_update import NOT_FINITE

_REPORT = re.compile(NOT_FINITE + r" step=(\d+) variables=([^;]*);")
_NOT_WRITTEN = "psclust_not_written"
_REFUSED = re.compile(_NOT_WRITTEN + r" variables=([^;]*);")
_HINT = "lower the learning rate, set clip_norm, or check the input; training again continues from the last checkpoint"


def check_loss(guard: str, step: int, loss: float) -> None:
    """Raises NotFiniteError for a loss that is not finite, unless the guard is off."""
    if guard != "off" and not math.isfinite(loss):
        raise NotFiniteError(f"step {step}: the loss is {loss}; {_HINT}")


def gradients_error(error: Any) -> NotFiniteError | None:
    """The error of an update that refused a gradient; None for any other TensorFlow error."""
    found = _REPORT.search(str(error.message))
    if found is None:
        return None
    step, names = found.groups()
    return NotFiniteError(f"step {step}: the gradient of {names} is not finite, and was not applied; {_HINT}")


def all_finite(variables: Sequence[Any], values: Sequence[Any], guard: str) -> list[Any]:
    """Ops to run before `values`, those of `variables`, are written: they fail if one is not finite. They check the written values
    themselves, so no update can come between check and writing."""
    floating = [(variable, value) for variable, value in zip(variables, values, strict=True) if variable.dtype.base_dtype.is_floating]
    if guard == "off" or not floating:
        return []
    flags = []
    with tf.name_scope("finite"):
        for variable, value in floating:
            with tf.device(variable.device):
                flags.append(tf.reduce_all(tf.math.is_finite(value)))
        finite = tf.stack(flags)
        names = tf.constant([variable.op.name for variable, _ in floating])
        bad = tf.strings.reduce_join(tf.boolean_mask(names, ~finite), separator=", ")
        return [tf.debugging.Assert(tf.reduce_all(finite), [tf.strings.join([_NOT_WRITTEN, " variables=", bad, ";"])], summarize=1)]


def not_written_error(error: Any, step: int) -> NotFiniteError | None:
    """The error of a checkpoint that `all_finite` refused; None for any other error."""
    found = _REFUSED.search(str(getattr(error, "message", "")))
    if found is None:
        return None
    return NotFiniteError(f"step {step}: {found[1]} has values that are not finite, and no checkpoint is written; {_HINT}")
