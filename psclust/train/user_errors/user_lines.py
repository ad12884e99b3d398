"""Which lines are the user's, and the last of them that was running."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import dropwhile
from pathlib import Path
from types import TracebackType
from typing import Any

import tensorflow as tf

_PACKAGE, _SITE = Path(__file__).parents[2], Path(str(tf.__file__)).parents[1]
# Frames in these folders are not the user's; psclust's examples count as user code.
_OWN = tuple(f"{_PACKAGE / name}/" for name in ("train", "replication", "estimator", "runtime"))
_LIBRARIES = (
    "<",
    *_OWN,
    *(f"{_SITE / name}/" for name in ("tensorflow", "keras", "tf_keras")),
)
# What TensorFlow runs in place of a function that a dataset maps.
GENERATED = "__autograph_generated_file"


def place(frames: Iterable[Any]) -> str:
    """The last line in the user's function, as part of a sentence; empty if none was running.
    Frames that called psclust do not count."""
    inside = dropwhile(lambda frame: not frame.filename.startswith(str(_PACKAGE)), frames)
    own = [frame for frame in inside if not is_of_library(frame.filename)]
    return at(own[-1].filename, own[-1].lineno, own[-1].name) if own else ""


def at(filename: str, line: object, function: str) -> str:
    return f" at {Path(filename).name}:{line} ({function})"


def show_from_the_user_on(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """A `sys.excepthook` that leaves out the frames of psclust before the first frame of the
    user's, if there is one."""
    own = trace
    while own is not None and is_of_library(own.tb_frame.f_code.co_filename):
        own = own.tb_next
    error.__traceback__ = own or trace
    sys.__excepthook__(kind, error, own or trace)


def is_of_library(filename: str) -> bool:
    """Whether a file is of TensorFlow, Keras or psclust, and not the user's."""
    return filename.startswith(_LIBRARIES)


def is_of_user(filename: str) -> bool:
    """Whether the user has written it, and not AutoGraph."""
    return not is_of_library(filename) and GENERATED not in filename


def is_of_psclust(filename: str) -> bool:
    return filename.startswith(_OWN)
