"""psclust's own wire between tasks (`native/wire.c`), which replaces TensorFlow's.

TensorFlow moves a tensor by a call from the task that needs it to the one that has it. Here, a
step's tensor leaves as soon as it is there:

             worker:0                   ps:0
    before   gradient --------------->  update
    after    gradient -> PsclustSend    PsclustReceive -> update

`crossings` puts the two new ops there. Nothing in the graph connects them, so what runs one has to
run the other: `sends_of` says which. Both ends are in one run, and know their messages by its
number, so that none of another run is taken for one of this.

Tasks are connected when a session begins, each to those that it needs, at ports that these have
chosen. Where that is not possible, such as through a firewall, the graph is built again for
TensorFlow's wire.

What a session feeds and fetches travels by TensorFlow's wire if it is on another task: what each
step does is on the session's own.
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
from psclust.spec.jobs import PS, WORKER

_COLLECTION = "psclust/own_wire"
# Of PsclustListen and PsclustConnect.
_UNREACHABLE = re.compile(r"psclust's wire: (no .*)")


class Unreachable(PsclustError):
    """A task cannot connect to another. The graph must be built again, for TensorFlow's wire."""


@dataclass
class OwnWire:
    """Of one graph. sends: by the name of the op that receives. pairs: (task that connects, task
    that listens), by their devices, between which anything travels. connect: the op that connects
    them, before anything does."""

    sends: dict[str, Operation] = field(default_factory=dict)
    pairs: dict[tuple[str, str], None] = field(default_factory=dict)
    connect: Operation | None = None
    _searched: dict[tuple[frozenset[str], frozenset[str]], Sequence[Operation]] = field(
        default_factory=dict
    )

    def received(self, value: Tensor, source: str, target: str) -> Tensor:
        """A tensor of the task `source`, in the task `target`."""
        ops, key = kernels.in_use(), len(self.sends)
        with tf.control_dependencies(None), tf.device(source):
            send = ops.psclust_send(
                value,
                own=_name(source),
                peer=_name(target),
                key=key,
                name=f"sent_to_{_plain(target)}",
            )
        with tf.control_dependencies(None), tf.device(target):
            name = f"received_from_{_plain(source)}"
            received: Tensor = ops.psclust_receive(
                T=value.dtype, own=_name(target), peer=_name(source), key=key, name=name
            )
        received.set_shape(value.shape)
        self.sends[received.op.name] = send
        self.pairs[max((source, target), key=_rank), min((source, target), key=_rank)] = None
        return received

    def sends_of(
        self, graph: Graph, fetches: Iterable[Any], feeds: Iterable[Any] = ()
    ) -> Sequence[Operation]:
        """The ops that a run of `fetches` has to run, too: they send what the run receives. Ignores
        fetches that are none."""
        elements = {
            element.name: element
            for element in (_element(graph, fetch) for fetch in fetches)
            if element is not None
        }
        fed = frozenset(
            element.name
            for element in (_element(graph, feed) for feed in feeds)
            if element is not None
        )
        key = frozenset(elements), fed
        if key not in self._searched:
            self._searched[key] = self._search(
                [element for name, element in elements.items() if name not in fed], fed
            )
        return self._searched[key]

    def _search(
        self, elements: Iterable[Tensor | Operation], fed: frozenset[str]
    ) -> Sequence[Operation]:
        def following(operation: Operation) -> Iterable[Operation]:
            sends = [self.sends[operation.name]] if operation.name in self.sends else []
            return [
                *operation.control_inputs,
                *sends,
                *(value.op for value in operation.inputs if value.name not in fed),
            ]

        run = reached(
            [element if isinstance(element, tf.Operation) else element.op for element in elements],
            following,
        )
        return [self.sends[name] for name in run if name in self.sends]


def allow_own_wire() -> None:
    """Makes the current graph use it, if it uses psclust's kernels."""
    if kernels.in_use() is not None:
        tf.compat.v1.add_to_collection(_COLLECTION, OwnWire())


def allowed_wire(graph: Graph) -> OwnWire | None:
    """Also if nothing travels by it yet."""
    return next(iter(graph.get_collection(_COLLECTION)), None)


def own_wire(graph: Graph) -> OwnWire | None:
    """None if all travels by TensorFlow's."""
    wire = allowed_wire(graph)
    return wire if wire and wire.sends else None


def connect_by(address_of: Callable[[str], str]) -> None:
    """Adds the op that connects the tasks of the current graph, whose addresses `address_of` knows
    by their devices."""
    wire, ops = own_wire(tf.compat.v1.get_default_graph()), kernels.in_use()
    if wire is None:
        return
    tickets: dict[str, Tensor] = {}
    connected = []
    for task, peer in wire.pairs:
        if peer not in tickets:
            with tf.device(peer):
                tickets[peer] = ops.psclust_listen(own=_name(peer))
        host, _, port = address_of(peer).rpartition(":")
        with tf.device(task):
            connected.append(
                ops.psclust_connect(
                    tickets[peer],
                    host=host.strip("[]"),
                    port=int(port),
                    own=_name(task),
                    peer=_name(peer),
                )
            )
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
        "TensorFlow's wire is used, which takes more time and CPU: "
        f"for psclust's own there is {found[1]}. If a firewall is between the hosts of this run, "
        "have it admit the ports of `ports:`, if that is a range, otherwise all above 1023"
    )


def _element(graph: Graph, fetch: Any) -> Any:
    try:
        return graph.as_graph_element(fetch)
    except (TypeError, ValueError, KeyError):
        return None


def _rank(device: str) -> tuple[int, int]:
    """Of two tasks the one of lower rank listens: a ps to all others, a worker to an in-graph
    client."""
    task = tf.DeviceSpec.from_string(device)
    return [PS, WORKER].index(task.job) if task.job in (PS, WORKER) else 2, task.task


def _name(device: str) -> str:
    task = tf.DeviceSpec.from_string(device)
    return f"{task.job}:{task.task}"


def _plain(device: str) -> str:
    return _name(device).replace(":", "_")
