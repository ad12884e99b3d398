"""Where the parts of a replicated graph go: device names as values, no TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layout:
    """The devices of a replicated graph.

    ps: number of ps tasks; 0 means one process without a cluster.
    workers: device of every replica, such as `/job:worker/task:1`; an empty string is this process.
    client: device of the process that drives the session.
    """

    ps: int
    workers: tuple[str, ...]
    client: str

    @property
    def parameters(self) -> str:
        """Where the step counter and all that belongs to no model variable lives."""
        return "/job:ps/task:0" if self.ps else ""


LOCAL = Layout(ps=0, workers=("",), client="")
