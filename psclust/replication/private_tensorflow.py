"""All that the training side uses of TensorFlow's Python without a public name. What the tasks
replace in TensorFlow when it is imported is in `psclust.runtime.tensorflow_patches`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.client.timeline import Timeline
from tensorflow.python.framework.ops import gradient_registry
from tensorflow.python.ops.variables import PartitionedVariable
from tensorflow.python.training.slot_creator import create_slot
from tensorflow.python.util.dispatch import register_dispatchable_type

from psclust.replication.tf_types import Graph, Operation, Session, Tensor, Variable

__all__ = ["PartitionedVariable", "Timeline", "create_slot", "register_dispatchable_type"]


def set_input(operation: Operation, index: int, value: Tensor) -> None:
    """Replaces an input of an op."""
    operation._update_input(index, value)


def replace_uses(value: Tensor, by: Tensor, users: Iterable[Operation]) -> None:
    """Replaces a tensor wherever it is an input of `users`."""
    for user in users:
        for index, used in enumerate(user.inputs):
            if used is value:
                set_input(user, index, by)


def wait_for(operation: Operation, other: Operation) -> None:
    """Makes an op wait for another."""
    operation._add_control_input(other)


def wait_instead(operation: Operation, other: Operation, of: Sequence[Operation]) -> None:
    """Makes an op wait for another in place of some that it waits for."""
    kept = [each for each in operation.control_inputs if each not in of]
    operation._remove_all_control_inputs()
    operation._add_control_inputs([*kept, other])


def waiting_for(operation: Operation) -> Sequence[Operation]:
    """The ops that wait for it without an input from it."""
    return list(operation._control_outputs)


def in_control_flow(operation_or_graph: Operation | Graph) -> bool:
    """Whether an op, or what is built next in a graph, is in a loop or a branch of TensorFlow 1."""
    return operation_or_graph._get_control_flow_context() is not None


def is_state(value: Tensor) -> bool:
    """Whether a tensor is not a value but says where state is: a variable's, a queue's."""
    # Sparse accumulators have references to strings.
    return value.dtype == tf.resource or bool(value.dtype._is_ref_dtype)


def is_colocating(graph: Graph) -> bool:
    """Whether what is built next is placed with another op."""
    return any(True for _ in graph._colocation_stack.peek_objs())


def set_device(operation: Operation, device: str) -> None:
    operation._set_device(device)


def nodes_of_functions(graph: Graph) -> Iterable[Any]:
    """The NodeDefs inside all functions of a graph."""
    for function in graph._functions.values():
        yield from function.definition.node_def


def slice_of(variable: Variable) -> Any:
    """The `tf.Variable.SaveSliceInfo` of a shard; None of a whole variable."""
    return variable._get_save_slice_info()


def set_slice(
    variable: Variable, name: str, shape: Sequence[int], offset: Sequence[int], part: Sequence[int]
) -> None:
    """Makes it a shard of the variable `name`: in checkpoints it is a part of that."""
    variable._set_save_slice_info(tf.Variable.SaveSliceInfo(name, shape, offset, part))


def variables_of(saver: Any) -> Any:
    """The variables that a `tf.compat.v1.train.Saver` saves: a list or a dict; None: all."""
    return saver._var_list


def gradient_of(kind: str) -> Callable[..., Any]:
    """The function that TensorFlow registered for the gradient of a kind of op."""
    found: Callable[..., Any] = gradient_registry.lookup(kind)
    return found


def prepared_call(
    session: Session, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]
) -> Callable[..., list[Any]]:
    """A function of the values of `feeds` that runs a session; all by name. `make_callable` with
    feeds does all that `Session.run` does at every call; this does it once. Errors name their op,
    as those of `run` do."""
    options = config_pb2.CallableOptions(feed=feeds, fetch=fetches, target=targets)
    run, called = session._make_callable_from_options(options), session._do_call
    return lambda *values: called(run, *values)
