"""Where the parts of a replicated graph go: device names as values, no TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from psclust.placement.placement_settings import PlacementSettings


@dataclass(frozen=True, slots=True)
class Layout:
    """The devices of a replicated graph.

    ps: number of ps tasks; 0 means one process without a cluster.
    workers: device of every replica, such as `/job:worker/task:1`, or one of its devices, `/job:worker/task:1/device:GPU:0`; an empty
        string is this process. Between-graph a replica is a task, else a tower.
    client: device of the process that drives the session.
    placement: which ps holds a variable, and which variables are cut.
    placed: name -> ps index of every variable, where another client has decided; None: `placement` decides.
    devices: of each worker between-graph, a tower on each, such as `/device:GPU:0`; an empty string leaves it to TensorFlow.
    """

    ps: int
    workers: tuple[str, ...]
    client: str
    placement: PlacementSettings = field(default_factory=PlacementSettings)
    placed: Mapping[str, int] | None = None
    devices: tuple[str, ...] = ("",)

    @property
    def parameters(self) -> str:
        """Where the step counter and all that belongs to no model variable lives."""
        return "/job:ps/task:0" if self.ps else host_of(self.workers[0]) if self.workers else ""

    @property
    def towers(self) -> Layout:
        """The same with a replica for every device of every worker, worker by worker."""
        return replace(self, workers=tuple(worker + device for worker in self.workers for device in self.devices), devices=("",))


def host_of(device: str) -> str:
    """The CPU of the task that one of its devices belongs to; a task without a device stays as it is, and TensorFlow decides."""
    task, named, _ = device.partition("/device:")
    return f"{task}/device:CPU:0" if named else device


LOCAL = Layout(ps=0, workers=("",), client="")
