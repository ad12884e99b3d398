"""Errors of steps, which run a user's functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from psclust.errors import ModelError, PsclustError, UsageError
from psclust.replication import kernels
from psclust.replication.passes.pulls import OF_DISTINCT
from psclust.replication.sync.stream_ops import EARLIER_CHIEF
from psclust.replication.wire.own_wire import inputs_of, unreachable
from psclust.train.nan_guard import gradients_error
from psclust.train.session import elsewhere, is_lost_peer
from psclust.train.user_errors.causes import FILE_LINE, first_line
from psclust.train.user_errors.user_lines import at, is_of_user, place

# No line of the user's creates the gradient of an op; its name contains the op's name.
_GRADIENT = re.compile(r"(?:.*/)?gradients(?:_\d+)?/(.+)_grad/[^/]+")
# Nor of an op that gathers in place of the user's.
_GATHER = re.compile(rf"(.+)/{OF_DISTINCT}(?:_\d+)?")
_NODE = re.compile(r"\{\{node ([^}]+)\}\}")
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
    lines = FILE_LINE.finditer(message.rpartition("\nNode: ")[2])
    python = [line for line in lines if is_of_user(line[1])]
    line = at(*python[-1].groups()) if python else place(frames)
    op = "" if name.endswith(_NEXT) else f" in {name or 'a step'}"
    hint = next((hint for kind, hint in _HINTS.items() if isinstance(error, kind)), _HINT)
    where = elsewhere(error) if _is_of_input(error) else ""
    return f"{function} failed on its data{op}{line}{where}: {first_line(message)}; {hint}"


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
    if own == name and not place(op.traceback):
        origins = sorted({_original(gradient.name) for gradient in _gradients(op)})
        ops = [each for each in (_op(graph, origin) for origin in origins) if each is not None]
        if len({place(each.traceback) for each in ops}) == 1:
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
