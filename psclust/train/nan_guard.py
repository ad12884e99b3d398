"""Ends a training whose numbers are no longer finite, with one sentence and the last good
checkpoint still there.

Three checks, each on values that are at hand anyway: the loss that every step returns; with
`nan_guard='gradients'`, every gradient before it is applied, by an op of the update; and every
variable before a checkpoint is written.
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
_REFUSED = re.compile(_NOT_WRITTEN + r" variable=([^;]*);")
_HINT = (
    "lower the learning rate, set clip_norm, or check the input; "
    "training again continues from the last checkpoint"
)


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
    return NotFiniteError(
        f"step {step}: the gradient of {names} is not finite, and was not applied; {_HINT}"
    )


def all_finite(variables: Sequence[Any], values: Sequence[Any], guard: str) -> list[Any]:
    """Ops to run before `values`, those of `variables`, are written: they fail if one is not
    finite. They check the written values themselves, so no update can come between check and
    writing."""
    if guard == "off":
        return []
    checks = []
    with tf.name_scope("finite"):
        for variable, value in zip(variables, values, strict=True):
            if variable.dtype.base_dtype.is_floating:
                with tf.device(variable.device):
                    checks.append(
                        tf.raw_ops.CheckNumerics(
                            tensor=value, message=f"{_NOT_WRITTEN} variable={variable.op.name};"
                        )
                    )
    return checks


def not_written_error(error: Any, step: int) -> NotFiniteError | None:
    """The error of a checkpoint that `all_finite` refused; None for any other error. It names the
    variables that were found first."""
    names = dict.fromkeys(_REFUSED.findall(str(getattr(error, "message", ""))))
    if not names:
        return None
    return NotFiniteError(
        f"step {step}: {', '.join(names)} has values that are not finite, "
        f"and no checkpoint is written; {_HINT}"
    )
