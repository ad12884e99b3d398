"""How `TrainConfig.moving_statistics` and `statistics_every` make replicas share statistics, and which combinations are refused."""

from __future__ import annotations

from psclust.errors import UsageError
from psclust.replication.device_layout import Layout
from psclust.replication.settings import Settings


def shares_moments(settings: Settings, layout: Layout, *, sync: bool) -> bool:
    """Whether the replicas all-reduce the moments of their batches. Raises UsageError if they should but cannot."""
    if settings.moving_statistics != "sync" or len(layout.workers) < 2:
        return False
    if not sync:
        raise UsageError(
            "moving_statistics 'sync' takes moments over the batches of all replicas, and asynchronous replicas have no batch in common; "
            "train with --sync, or choose moving_statistics 'mean'"
        )
    if settings.accumulate > 1:
        raise UsageError(
            f"moving_statistics 'sync' needs all batches of an update at once, and accumulate={settings.accumulate} computes them one "
            "after another; choose moving_statistics 'mean', or more replicas instead of accumulate"
        )
    return True


def keeps_per_tower(settings: Settings, replicas: int, *, in_step: bool) -> bool:
    """Whether every tower keeps moving statistics of its own. in_step: the towers are in one graph and step together. Raises UsageError if
    they should keep their own but cannot."""
    if settings.statistics_every == 1 or replicas == 1 or settings.moving_statistics == "first":
        return False
    if not in_step or settings.moving_statistics != "mean":
        raise UsageError(
            f"statistics_every={settings.statistics_every} averages the moving statistics of towers in one graph: it needs in-graph "
            "synchronous replication and moving_statistics 'mean'. Leave it out: elsewhere statistics travel with the gradients"
        )
    return True
