"""Warnings about `==` and `!=` between tensors in a user's functions: in a graph, TensorFlow
compares the objects, not what they hold. The result is a Python bool, and an accuracy made of it is
0, without a word."""

from __future__ import annotations

import dis
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Number
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import tensorflow as tf

from psclust.train.user_errors.user_lines import GENERATED, is_of_library, is_of_psclust, is_of_user

LOG = logging.getLogger(__name__)

_KINDS = (tf.Tensor, tf.Variable, tf.RaggedTensor)
_OPERATORS = {"__eq__": ("==", "tf.equal"), "__ne__": ("!=", "tf.not_equal")}


@contextmanager
def comparisons_noticed(seen: set[str]) -> Iterator[None]:
    """Until it ends, comparisons of tensors in the user's code warn, and give what they gave
    before. `seen`: places that have warned.

    Making them compare values would change model functions of `tf.estimator`, where they compare
    objects too, and fail in `if a == b`."""
    before = [(kind, name, getattr(kind, name)) for kind in _KINDS for name in _OPERATORS]
    for kind, name, compare in before:
        setattr(kind, name, _noticing(name, compare, seen))
    try:
        yield
    finally:
        for kind, name, compare in before:
            setattr(kind, name, compare)


def _noticing(
    name: str, compare: Callable[[Any, Any], Any], seen: set[str]
) -> Callable[[Any, Any], Any]:
    def compared(self: Any, other: Any) -> Any:
        result = compare(self, other)
        place = (
            _place(sys._getframe(1))
            if isinstance(result, bool) and _holds_values(self, other)
            else None
        )
        if place is not None and f"{place} {name}" not in seen:
            seen.add(f"{place} {name}")
            operator, function = _OPERATORS[name]
            LOG.warning(
                "%s: `%s` compares tensors as objects, so it is %s whatever they hold; write %s",
                place,
                operator,
                result,
                function,
            )
        return result

    return compared


def _holds_values(tensor: Any, other: Any) -> bool:
    """Whether `other` could equal the values of `tensor`; not so "auto" in place of a number."""
    if isinstance(other, str | bytes):
        return bool(tensor.dtype.base_dtype == tf.string)
    return isinstance(other, Number | np.ndarray | np.generic | list | tuple) or tf.is_tensor(other)


def _place(frame: FrameType) -> str | None:
    """The line of the user's that compares; None if it is a library's, or looks for an object:
    `in`, a dict, a set."""
    code = frame.f_code
    if dis.opname[code.co_code[frame.f_lasti]] != "COMPARE_OP" or is_of_library(code.co_filename):
        return None
    name, found = code.co_name, frame
    if GENERATED in code.co_filename:
        # The line that gives the function to the dataset, unless it has been converted, too.
        name = name.removeprefix("tf__")
        while not is_of_user(found.f_code.co_filename):
            if found.f_back is None or is_of_psclust(found.f_code.co_filename):
                return name
            found = found.f_back
    return f"{Path(found.f_code.co_filename).name}:{found.f_lineno} ({name})"
