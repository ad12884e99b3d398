"""The graphs of a program in every way to train, for two workers of a cluster that is not there."""

from __future__ import annotations

from typing import Any

from psclust.placement.placement_settings import PlacementSettings
from psclust.replication.build_between_graph import build_between_graph
from psclust.replication.build_in_graph import build_in_graph
from psclust.replication.device_layout import DeviceLayout

WORKERS = ("/job:worker/task:0", "/job:worker/task:1")
CLIENT = "/job:client/task:0"
HOWS = ("in-graph sync", "in-graph async", "between-graph sync", "between-graph async")


def build(
    program: Any,
    how: str,
    placement: PlacementSettings | None = None,
    *,
    replica: int = 0,
    bounded: bool = False,
    **layout: Any,
) -> Any:
    """Builds the graph of a client in the current one. how: one of HOWS; replica: the worker whose
    client it is between-graph, where the first is the chief; layout: further fields of its
    DeviceLayout, in place of two ps."""
    replication, update = how.split()
    client = CLIENT if replication == "in-graph" else WORKERS[replica]
    fields: dict[str, Any] = {"ps": 2, "placement": placement or PlacementSettings(), **layout}
    devices = DeviceLayout(workers=WORKERS, client=client, **fields)
    sync = update == "sync"
    if replication == "in-graph":
        return build_in_graph(program, devices, sync=sync, bounded=bounded)
    return build_between_graph(
        program, devices, replica, sync=sync, chief=replica == 0, bounded=bounded
    )
