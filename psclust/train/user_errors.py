"""TensorFlow's errors in a user's function, while its graph is built and while it runs, as one
sentence with the line in that function.

Exceptions that the user's own code raises pass unchanged.
"""

from __future__ import annotations

import re
import sys
import textwrap
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import dropwhile
from pathlib import Path
from types import TracebackType
from typing import Any

import tensorflow as tf

from psclust.errors import ModelError, PsclustError, UsageError
from psclust.replication import kernels
from psclust.replication.passes.pulls import OF_DISTINCT
from psclust.replication.sync.stream_ops import EARLIER_CHIEF
from psclust.replication.wire.own_wire import inputs_of, unreachable
from psclust.train.nan_guard import gradients_error
from psclust.train.session import elsewhere, is_lost_peer

_PACKAGE, _SITE = Path(__file__).parents[1], Path(str(tf.__file__)).parents[1]
# Frames in these folders are not the user's; psclust's examples count as user code.
_OWN = tuple(f"{_PACKAGE / name}/" for name in ("train", "replication", "estimator", "runtime"))
_LIBRARIES = (
    "<",
    *_OWN,
    *(f"{_SITE / name}/" for name in ("tensorflow", "keras", "tf_keras")),
)
# No line of the user's creates the gradient of an op; its name contains the op's name.
_GRADIENT = re.compile(r"(?:.*/)?gradients(?:_\d+)?/(.+)_grad/[^/]+")
# Nor of an op that gathers in place of the user's.
_GATHER = re.compile(rf"(.+)/{OF_DISTINCT}(?:_\d+)?")
_NODE = re.compile(r"\{\{node ([^}]+)\}\}")
# Keras and AutoGraph tell an error again, in another one of the same kind.
_OF_KERAS = "Exception encountered when calling .*"
_CONVERTED = "in user code:"
_TOLD_AGAIN = re.compile(rf"^{_OF_KERAS}|^{_CONVERTED}", re.MULTILINE)
# The lines of a TensorFlow error that name a place instead of a cause.
_WHERE = re.compile(
    r"Graph execution error:|=*|Detected at node.*|File \".*|Node: '.*|\[\[.*|From /job:.*"
    r"|\d+ root error\(s\) found\.|Original stack trace.*|[A-Z_]+: From /job:.*"
    rf"|{_OF_KERAS}"
)
# The error of `get_variable` with reuse=True, with which psclust builds all towers but the first.
_MISSING = re.compile(
    r"Variable (\S+) does not exist, or was not created with tf\.get_variable\(\)"
)
_FILE_LINE = re.compile(r'^ *File "(.+)", line (\d+), in (\S+)', re.MULTILINE)
# The op that reads a batch.
_NEXT = "IteratorGetNext"
# The errors of steps that may be the fault of the data.
_OF_DATA = (
    tf.errors.InvalidArgumentError,
    tf.errors.NotFoundError,
    tf.errors.PermissionDeniedError,
    tf.errors.DataLossError,
    tf.errors.UnknownError,
)
_HINT = "look at the shapes and values of the batches"
_HINTS = {
    tf.errors.NotFoundError: "a task reads its data on its own host",
    tf.errors.PermissionDeniedError: "a task reads its data on its own host",
    tf.errors.DataLossError: "the file is damaged, or of another kind or compression",
}
_LABEL = re.compile(r"^(\(\d+\) )?([A-Z_]+: )?")
# What TensorFlow runs in place of a function that a dataset maps.
GENERATED = "__autograph_generated_file"
_BOLD = re.compile(r"\x1b\[\d+m")


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
        cause, place = _unconverted(error)
        missing = _MISSING.match(cause)
        if missing:
            raise UsageError(
                f"{function} asks for the variable {missing[1]}{place}, which the first "
                f"tower does not have; {function} must create the same variables in every tower"
            ) from error
        given = (
            "" if features is None else f"; features: {_shown(features)}, labels: {_shown(labels)}"
        )
        raise UsageError(
            f"{function} failed in mode {mode!r}{place}: {_first_line(cause)}{given}"
        ) from error


def _unconverted(error: Exception) -> tuple[str, str]:
    """(what an error says, the last line in the user's function as part of a sentence). Of one in a
    function that AutoGraph has converted, such as one that a dataset maps, TensorFlow makes another
    error of the same kind, which tells both in a text."""
    text = str(error)
    lines = list(_FILE_LINE.finditer(text)) if _CONVERTED in text else []
    # After the line itself, and an empty one.
    told = text[lines[-1].end() :].split("\n", 3)[3:] if lines else []
    if not told:
        return text, _place(traceback.extract_tb(error.__traceback__))
    own = [line for line in lines if is_of_user(line[1])]
    kind, _, cause = textwrap.dedent(told[0]).partition(": ")
    at = _at(own[-1][1], own[-1][2], own[-1][3].replace("None", "<lambda>")) if own else ""
    return cause or kind, at


def _is_raised_by_library(error: BaseException) -> bool:
    while _TOLD_AGAIN.search(str(error)) and error.__context__ is not None:
        error = error.__context__
    return is_of_library(traceback.extract_tb(error.__traceback__)[-1].filename)


@contextmanager
def explained(graph: Any) -> Iterator[None]:
    """Turns the failure of a step in the user's functions, because of its data, into a ModelError.
    Raises NotFiniteError if the update refused a gradient, PsclustError if another chief took over,
    `kernels.Missing` if a task lacks these, Unreachable if one cannot connect to another; all other
    errors pass."""
    try:
        yield
    except _OF_DATA as error:
        missing = kernels.missing(error) if isinstance(error, tf.errors.NotFoundError) else None
        if missing is not None:
            raise missing from error
        if is_lost_peer(error):
            raise
        if EARLIER_CHIEF in str(error.message):
            raise PsclustError(
                "another chief has taken over this training while this one did not answer; "
                "this one ends, and changes nothing more"
            ) from error
        if not isinstance(error, tf.errors.InvalidArgumentError) and not _is_of_input(error):
            raise
        raise (gradients_error(error) or ModelError(_sentence(error, graph))) from error
    except tf.errors.UnimplementedError as error:
        blocked = unreachable(error)
        if blocked is None:
            raise
        raise blocked from error


def no_data(source: str) -> UsageError:
    """For an input that ends before its first batch; `source` is its name in the message."""
    return UsageError(
        f"{source} has no batch at all: input_fn returned an empty dataset, "
        "or there are fewer elements than replicas"
    )


def _sentence(error: Any, graph: Any) -> str:
    message = str(error.message)
    name = (
        error.node_def.name
        if error.node_def is not None
        else next(iter(_NODE.findall(message)), "")
    )
    name, frames = _origin(name, graph)
    function = "input_fn" if _is_of_input(error) else "model_fn"
    # Of Python code in a dataset; before that are the lines that made the op.
    lines = _FILE_LINE.finditer(message.rpartition("\nNode: ")[2])
    python = [line for line in lines if is_of_user(line[1])]
    place = _at(*python[-1].groups()) if python else _place(frames)
    op = "" if name.endswith(_NEXT) else f" in {name or 'a step'}"
    hint = next((hint for kind, hint in _HINTS.items() if isinstance(error, kind)), _HINT)
    where = elsewhere(error) if _is_of_input(error) else ""
    return f"{function} failed on its data{op}{place}{where}: {_first_line(message)}; {hint}"


def _is_of_input(error: Any) -> bool:
    return _NEXT in str(error.message)


def _origin(name: str, graph: Any) -> tuple[str, Sequence[Any]]:
    """The op of a user's line for which the op `name` is there, with its traceback. An op of an
    update may fail before the op whose gradient it takes, where that does not depend on the result,
    as in a mean of looked-up rows; one that takes those of two lines is none of them."""
    own = _original(name)
    op = _op(graph, own)
    if op is None:
        return own, ()
    if own == name and not _place(op.traceback):
        origins = sorted({_original(gradient.name) for gradient in _gradients(op)})
        ops = [each for each in (_op(graph, origin) for origin in origins) if each is not None]
        if len({_place(each.traceback) for each in ops}) == 1:
            op = ops[0]
    return op.name, op.traceback


def _original(name: str) -> str:
    return _GATHER.sub(r"\1", _GRADIENT.sub(r"\1", name))


def _op(graph: Any, name: str) -> Any:
    """None for an op inside a function, such as one that a dataset maps."""
    try:
        return graph.get_operation_by_name(name)
    except (KeyError, ValueError):
        return None


def _gradients(op: Any) -> Iterator[Any]:
    """The gradients' ops nearest above an op's inputs."""
    seen, waiting = {op}, [op]
    while waiting:
        for given in {tensor.op for tensor in inputs_of(waiting.pop())} - seen:
            seen.add(given)
            if _original(given.name) != given.name:
                yield given
            else:
                waiting.append(given)


def _place(frames: Iterable[Any]) -> str:
    """The last line in the user's function, as part of a sentence; empty if none was running.
    Frames that called psclust do not count."""
    inside = dropwhile(lambda frame: not frame.filename.startswith(str(_PACKAGE)), frames)
    own = [frame for frame in inside if not is_of_library(frame.filename)]
    return _at(own[-1].filename, own[-1].lineno, own[-1].name) if own else ""


def _at(filename: str, line: object, function: str) -> str:
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


def _first_line(message: str) -> str:
    lines = [line.strip() for line in _BOLD.sub("", message).splitlines()]
    causes = [line for line in lines if not _WHERE.fullmatch(line)]
    return _LABEL.sub("", causes[0]) if causes else message


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
