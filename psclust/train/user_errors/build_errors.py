"""Errors while a user's function builds its part of a graph."""

from __future__ import annotations

import re
import textwrap
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from psclust.errors import PsclustError, UsageError
from psclust.train.user_errors.causes import CONVERTED, FILE_LINE, first_line, is_told_again
from psclust.train.user_errors.user_lines import at, is_of_library, is_of_user, place

# The error of `get_variable` with reuse=True, with which psclust builds all towers but the first.
_MISSING = re.compile(
    r"Variable (\S+) does not exist, or was not created with tf\.get_variable\(\)"
)


@contextmanager
def refusals(function: str, mode: str, features: Any = None, labels: Any = None) -> Iterator[None]:
    """Turns TensorFlow's errors while `function` builds a graph into a UsageError that shows the
    shapes of its arguments."""
    try:
        yield
    except PsclustError as error:
        cause, _ = _unconverted(error)
        if cause == str(error):
            raise
        raise type(error)(cause) from error
    except (ValueError, TypeError) as error:
        if not _is_raised_by_library(error):
            raise
        cause, where = _unconverted(error)
        missing = _MISSING.match(cause)
        if missing:
            raise UsageError(
                f"{function} asks for the variable {missing[1]}{where}, which the first "
                f"tower does not have; {function} must create the same variables in every tower"
            ) from error
        given = (
            "" if features is None else f"; features: {_shown(features)}, labels: {_shown(labels)}"
        )
        raise UsageError(
            f"{function} failed in mode {mode!r}{where}: {first_line(cause)}{given}"
        ) from error


def _unconverted(error: Exception) -> tuple[str, str]:
    """(what an error says, the last line in the user's function as part of a sentence). Of one in a
    function that AutoGraph has converted, such as one that a dataset maps, TensorFlow makes another
    error of the same kind, which tells both in a text."""
    text = str(error)
    lines = list(FILE_LINE.finditer(text)) if CONVERTED in text else []
    # After the line itself, and an empty one.
    told = text[lines[-1].end() :].split("\n", 3)[3:] if lines else []
    if not told:
        return text, place(traceback.extract_tb(error.__traceback__))
    own = [line for line in lines if is_of_user(line[1])]
    kind, _, cause = textwrap.dedent(told[0]).partition(": ")
    where = at(own[-1][1], own[-1][2], own[-1][3].replace("None", "<lambda>")) if own else ""
    return cause or kind, where


def _is_raised_by_library(error: BaseException) -> bool:
    while is_told_again(str(error)) and error.__context__ is not None:
        error = error.__context__
    return is_of_library(traceback.extract_tb(error.__traceback__)[-1].filename)


def _shown(value: Any) -> str:
    """dtype and shape of each tensor of a structure."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_shown(part)}" for key, part in value.items()) + "}"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(_shown(part) for part in value)})"
    return (
        f"{value.dtype.name} {value.shape}"
        if hasattr(value, "dtype") and hasattr(value, "shape")
        else str(value)
    )
