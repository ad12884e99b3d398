"""What travels between workers and ps by psclust's own wire (`runtime/wire.c`), in place of TensorFlow's.

TensorFlow moves a tensor by a call from the task that needs it to the one that has it. Here, a step's tensor leaves as soon as it is there:

    worker:0                 ps:0                           worker:0                    ps:0
    gradient ------------->  update           becomes       gradient -> PsclustSend     PsclustReceive -> update

Nothing in the graph connects the two new ops, so what runs one has to run the other: `sends_of` says which. Both ends are in one run, and
know their messages by its number, so that none of another run is taken for one of this.

Tasks are connected when a session begins, each to the ps that it needs, at a port that the ps has chosen. Where that is not possible, such
as through a firewall, the graph is built again for TensorFlow's wire.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from psclust.errors import PsclustError
from psclust.replication import kernels
from psclust.replication.graph_walk import reached
from psclust.replication.tf_types import Graph, Operation, Tensor
from psclust.replication.wire.narrow import is_crossing, place_of
from psclust.spec.jobs import PS

_COLLECTION = "psclust/own_wire"
# The types that are in memory as they travel.
_DTYPES = frozenset({"float32", "float64", "bfloat16", "float16", "int8", "uint8", "int16", "int32", "int64", "bool"})
_MOST_DIMENSIONS = 8  # as in runtime/wire.h
# Of PsclustListen and PsclustConnect.
_UNREACHABLE = re.compile(r"psclust's wire: (no .*)")


class Unreachable(PsclustError):
    """A task cannot connect to a ps. The graph must be built again, for TensorFlow's wire."""


@dataclass
class OwnWire:
    """Of one graph. sends: by the name of the op that receives. pairs: (task, ps), by their devices, between which anything travels.
    connect: the op that connects them, before anything does."""

    sends: dict[str, Operation] = field(default_factory=dict)
    pairs: dict[tuple[str, str], None] = field(default_factory=dict)
    connect: Operation | None = None
    _found: dict[tuple[frozenset[str], frozenset[str]], Sequence[Operation]] = field(default_factory=dict)

    def sends_of(self, graph: Graph, fetches: Iterable[Any], feeds: Iterable[Any] = ()) -> Sequence[Operation]:
        """The ops that a run of `fetches` has to run, too: they send what the run receives. Ignores fetches that are none."""
        elements = {element.name: element for element in (_element(graph, fetch) for fetch in fetches) if element is not None}
        fed = frozenset(element.name for element in (_element(graph, feed) for feed in feeds) if element is not None)
        key = frozenset(elements), fed
        if key not in self._found:
            self._found[key] = self._search([element for name, element in elements.items() if name not in fed], fed)
        return self._found[key]

    def _search(self, elements: Iterable[Tensor | Operation], fed: frozenset[str]) -> Sequence[Operation]:
        def following(operation: Operation) -> Iterable[Operation]:
            sends = [self.sends[operation.name]] if operation.name in self.sends else []
            return [*operation.control_inputs, *sends, *(value.op for value in operation.inputs if value.name not in fed)]

        run = reached([element if isinstance(element, tf.Operation) else element.op for element in elements], following)
        return [self.sends[name] for name in run if name in self.sends]


def allow_own_wire() -> None:
    """Makes the current graph use it, if it uses psclust's kernels."""
    if kernels.in_use() is not None:
        tf.compat.v1.add_to_collection(_COLLECTION, OwnWire())


def own_wire(graph: Graph) -> OwnWire | None:
    """None if all travels by TensorFlow's."""
    wire: OwnWire | None = next(iter(graph.get_collection(_COLLECTION)), None)
    return wire if wire and wire.sends else None


def use_own_wire(built: int) -> None:
    """Makes what goes from a ps to another job, or from there to a ps, travel by it: of the current graph without its first `built` ops.
    What loops and branches do inside stays as it is."""
    graph = tf.compat.v1.get_default_graph()
    for wire in graph.get_collection(_COLLECTION):
        for operation in graph.get_operations()[built:]:
            for value in filter(_can_travel, operation.outputs):
                _redirect(value, wire)
            _redirect_order(operation, wire)
        for operation in graph.get_operations()[built:]:
            if operation.type == "PsclustPlace":
                _receive_into_place(operation, wire)


def connect_by(address_of: Callable[[str], str]) -> None:
    """Adds the op that connects the tasks of the current graph, whose addresses `address_of` knows by their devices."""
    wire, ops = own_wire(tf.compat.v1.get_default_graph()), kernels.in_use()
    if wire is None:
        return
    tickets: dict[str, Tensor] = {}
    connected = []
    for task, ps in wire.pairs:
        if ps not in tickets:
            with tf.device(ps):
                tickets[ps] = ops.psclust_listen(own=_name(ps))
        host = address_of(ps).rpartition(":")[0].strip("[]")
        with tf.device(task):
            connected.append(ops.psclust_connect(tickets[ps], host=host, own=_name(task), peer=_name(ps)))
    wire.connect = tf.group(*connected, name="connected")


def inputs_of(operation: Operation) -> Sequence[Tensor]:
    """Those of an op or, if it receives, of the one that sends."""
    wire = own_wire(operation.graph)
    send = wire.sends.get(operation.name) if wire else None
    return [*operation.inputs, *(send.inputs if send is not None else ())]


def unreachable(error: Any) -> Unreachable | None:
    """Of the UnimplementedError of a run that was to connect tasks; None of any other."""
    found = _UNREACHABLE.search(str(error.message))
    if found is None:
        return None
    return Unreachable(
        f"TensorFlow's wire is used, which takes more time and CPU: for psclust's own there is {found[1]}. If a firewall is between the "
        "hosts of this run, have it admit the ports of `ports:`, if that is a range, otherwise all above 1023"
    )


def _element(graph: Graph, fetch: Any) -> Any:
    try:
        return graph.as_graph_element(fetch)
    except (TypeError, ValueError, KeyError):
        return None


def _can_travel(value: Tensor) -> bool:
    return value.dtype.name in _DTYPES and (value.shape.rank is None or value.shape.rank <= _MOST_DIMENSIONS)


def _redirect(value: Tensor, wire: OwnWire) -> None:
    """Makes those that use a tensor in other tasks receive it."""
    for target, users in _elsewhere(value.op, value.consumers()).items():
        received = _received(value, _task(place_of(value.op)), target, wire)
        for user in users:
            for index, used in enumerate(user.inputs):
                if used is value:
                    # There is no public call that replaces an input.
                    user._update_input(index, received)


def _redirect_order(operation: Operation, wire: OwnWire) -> None:
    """Makes those that wait for an op of another task, and for nothing of it, receive word of it."""
    for target, users in _elsewhere(operation, operation._control_outputs).items():
        source = _task(place_of(operation))
        with tf.device(source), tf.control_dependencies([operation]):
            done = tf.identity(tf.constant(True), name="done")
        received = _received(done, source, target, wire)
        for user in users:
            _wait_for(user, received.op, in_place_of=operation)


def _wait_for(user: Operation, operation: Operation, *, in_place_of: Operation) -> None:
    # Nor is there a public call that removes what an op waits for.
    others = [one for one in user.control_inputs if one is not in_place_of]
    user._remove_all_control_inputs()
    user._add_control_inputs([*others, operation])


def _receive_into_place(place: Operation, wire: OwnWire) -> None:
    """Makes what a shard's place gets be received there, if it needs no more than to be copied."""
    whole, received, *base = place.inputs
    if base or received.op.name not in wire.sends or received.dtype != tf.float32 or len(received.consumers()) > 1:
        return
    attributes = {name: received.op.get_attr(name) for name in ("own", "peer", "key")} | {
        name: place.get_attr(name) for name in ("at", "count")
    }
    with tf.control_dependencies(None), tf.device(place.device):
        arriving = kernels.in_use().psclust_receive_into(whole, **attributes, name=received.op.name)
    wire.sends[arriving.name] = wire.sends.pop(received.op.name)
    for user in list(place._control_outputs):
        _wait_for(user, arriving, in_place_of=place)


def _elsewhere(operation: Operation, users: Iterable[Operation]) -> dict[str, list[Operation]]:
    """task -> those of `users`, of an op's results, that are in it: for all tasks that are across the wire from the op's."""
    found: dict[str, list[Operation]] = {}
    if operation._get_control_flow_context() is None:
        source = _task(place_of(operation))
        for user in users:
            target = _task(place_of(user))
            if is_crossing(source, target) and user._get_control_flow_context() is None:
                found.setdefault(target, []).append(user)
    return found


def _received(value: Tensor, source: str, target: str, wire: OwnWire) -> Tensor:
    """A tensor of the task `source`, in the task `target`."""
    ops, key = kernels.in_use(), len(wire.sends)
    with tf.control_dependencies(None), tf.device(source):
        send = ops.psclust_send(value, own=_name(source), peer=_name(target), key=key, name=f"sent_to_{_plain(target)}")
    with tf.control_dependencies(None), tf.device(target):
        name = f"received_from_{_plain(source)}"
        received = ops.psclust_receive(T=value.dtype, own=_name(target), peer=_name(source), key=key, name=name)
    received.set_shape(value.shape)
    wire.sends[received.op.name] = send
    wire.pairs[(target, source) if tf.DeviceSpec.from_string(source).job == PS else (source, target)] = None
    return received


def _task(device: str) -> str:
    """Without the device in it: TensorFlow chooses the CPU, where the ops of the wire are."""
    return device.partition("/device:")[0]


def _name(device: str) -> str:
    task = tf.DeviceSpec.from_string(device)
    return f"{task.job}:{task.task}"


def _plain(device: str) -> str:
    return _name(device).replace(":", "_")
