"""Plans a replicated graph from settings and layout, before its first op is built. Every
combination of settings that cannot work is refused here. Imports no TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass

from psclust.errors import UsageError
from psclust.replication.device_layout import DeviceLayout
from psclust.replication.settings import Settings
from psclust.spec.plurals import counted


@dataclass(frozen=True, slots=True)
class InGraphPlan:
    """towers: the device of each. combined: one update takes the mean gradient of all towers;
    otherwise each tower makes its own updates. split_on: device of the one input whose batches are
    split over the towers; None gives each tower an input of its own.
    padded: an input that ends goes on with padding batches until all have ended. share_moments:
    batch moments are all-reduced. own_statistics: every tower keeps its own moving statistics.
    bare: workers are TensorFlow servers without Python.
    train_op: the model may bring a ready train_op. copies: towers compute from local copies of the
    variables."""

    towers: tuple[str, ...]
    combined: bool
    split_on: str | None
    padded: bool
    share_moments: bool
    own_statistics: bool
    bare: bool
    train_op: bool
    copies: bool


def plan_in_graph(
    settings: Settings, layout: DeviceLayout, *, sync: bool, bounded: bool = False
) -> InGraphPlan:
    """The graph for all workers of `layout`. bounded: staleness has a bound. Raises UsageError if
    there is no worker for a tower, no ps for the variables, or if settings contradict each
    other."""
    if not layout.workers:
        raise UsageError(
            "in-graph replication needs at least one worker to hold a tower; "
            "raise the worker count (--workers 1)"
        )
    if layout.client and not layout.ps:
        raise UsageError(
            "in-graph replication needs at least one ps to hold the variables; "
            "raise the ps count (--ps 1)"
        )
    several = len(layout.workers) > 1
    _refuse_with_parts(settings, bounded=bounded)
    if several and settings.split_batch and not sync:
        raise UsageError(
            "split_batch splits each batch over towers that step together, "
            "and the towers of an asynchronous in-graph training do not; "
            "train with --sync, or leave it out: each tower then reads a shard of its own"
        )
    combined, split = several and sync, several and settings.split_batch
    return InGraphPlan(
        towers=layout.workers,
        combined=combined,
        split_on=layout.client or layout.parameters if split else None,
        padded=combined and not split and not settings.drop_uneven,
        share_moments=_shares_moments(settings, len(layout.workers), sync=sync),
        own_statistics=_own_statistics(settings, len(layout.workers), together=combined),
        bare=bool(layout.client),
        train_op=not several and not layout.client,
        copies=one_way(settings) is None and not bounded,
    )


@dataclass(frozen=True, slots=True)
class BetweenGraphPlan:
    """The graph of one worker. towers: the device of each of its towers. sync: gradients go to the
    barrier; otherwise the worker applies them. needed: how many gradients make an update, pushed to
    accumulators of each worker's own; None: one of every worker, pushed to shared ones. split: the
    worker has one input, whose batches are split over its towers.
    padded: the worker goes on with padding batches when its data ends, because the others need its
    moments.
    towers_padded: a tower does so, because the other towers of the worker go on. share_moments:
    batch moments are all-reduced over all towers of all workers. copies: the worker computes from
    local copies of the variables, if `sync` only of a model for which that pays."""

    towers: tuple[str, ...]
    sync: bool
    needed: int | None
    split: bool
    padded: bool
    towers_padded: bool
    share_moments: bool
    copies: bool

    @property
    def inputs(self) -> int:
        """How many inputs the worker reads side by side."""
        return 1 if self.split else len(self.towers)


def plan_between_graph(
    settings: Settings,
    layout: DeviceLayout,
    replica: int,
    *,
    sync: bool,
    backups: int = 0,
    bounded: bool = False,
) -> BetweenGraphPlan:
    """The graph of worker number `replica`; `backups` gradients of an update may be late; bounded:
    staleness has a bound. Raises UsageError if there is no ps for the variables, or if settings
    contradict each other."""
    if not layout.ps:
        raise UsageError(
            "between-graph replication needs at least one ps to hold the variables; "
            "raise the ps count (--ps 1)"
        )
    every, each = layout.towers.workers, len(layout.devices)
    together = each * settings.accumulate if sync else 1
    _refuse_with_parts(settings, bounded=bounded, backups=backups, together=together)
    _own_statistics(settings, len(every), together=False)
    # One worker alone is in step with all there are.
    share_moments = _shares_moments(settings, len(every), sync=sync or len(layout.workers) == 1)
    padded = share_moments and len(layout.workers) > 1 and not settings.drop_uneven
    return BetweenGraphPlan(
        towers=every[replica * each : (replica + 1) * each],
        sync=sync,
        needed=_gradients_needed(backups, settings, len(layout.workers), sync=sync),
        split=settings.split_batch,
        padded=padded,
        towers_padded=padded or not (settings.split_batch or settings.drop_uneven),
        share_moments=share_moments,
        # A worker that has waited for slower ones has to see what they did meanwhile.
        copies=one_way(settings) is None
        and not bounded
        and not (sync and (backups or one_way_in_step(settings))),
    )


def _refuse_with_parts(
    settings: Settings, *, bounded: bool, backups: int = 0, together: int = 1
) -> None:
    """Raises UsageError for what parts of the data that are handed out do not go with. together:
    how many batches a worker adds up for a message of the barrier."""
    if not settings.handed_out:
        return
    found = {
        "split_batch": settings.split_batch,
        "drop_uneven": settings.drop_uneven,
        "a bound on staleness (max_staleness)": bounded,
        "backup_workers": backups > 0,
        "several batches of a worker in a synchronous step (accumulate, several devices)": (
            together > 1
        ),
    }
    names = [name for name, wanted in found.items() if wanted]
    if names:
        raise UsageError(
            f"the data is handed out in parts, which does not go with {', '.join(names)}: "
            "leave that out, or train with `input: sharded`"
        )


def one_way(settings: Settings) -> str | None:
    """The setting with which no variable can come back to a worker while gradients of others still
    leave; None if there is none."""
    found = {
        f"clip_norm={settings.clip_norm}": settings.clip_norm is not None,
        f"nan_guard={settings.nan_guard}": settings.nan_guard == "gradients",
        "local_copies=false": not settings.local_copies,
    }
    return next((name for name, holds in found.items() if holds), None)


def one_way_in_step(settings: Settings) -> str | None:
    """The same of synchronous between-graph training, where `one_way` finds none."""
    # Workers that wait for each other in the middle of a step are released with made-up values when
    # one is lost.
    return "moving_statistics=sync" if settings.moving_statistics == "sync" else None


def _shares_moments(settings: Settings, replicas: int, *, sync: bool) -> bool:
    """Whether `replicas` all-reduce the moments of their batches."""
    if settings.moving_statistics != "sync" or replicas < 2:
        return False
    if not sync:
        raise UsageError(
            "moving_statistics 'sync' takes moments over the batches of all replicas, "
            "and asynchronous replicas have no batch in common; "
            "train with --sync, or choose moving_statistics 'mean'"
        )
    if settings.accumulate > 1:
        raise UsageError(
            "moving_statistics 'sync' needs all batches of an update at once, "
            f"and accumulate={settings.accumulate} computes them one after another; "
            "choose moving_statistics 'mean', or more replicas instead of accumulate"
        )
    return True


def _own_statistics(settings: Settings, replicas: int, *, together: bool) -> bool:
    """Whether each of `replicas` keeps its own moving statistics; `together`: they are towers of
    one graph, with one update for all."""
    if settings.statistics_every == 1 or replicas == 1 or settings.moving_statistics == "first":
        return False
    if not together or settings.moving_statistics != "mean":
        raise UsageError(
            f"statistics_every={settings.statistics_every} averages the moving statistics of "
            "towers in one graph: it needs in-graph synchronous replication and moving_statistics "
            "'mean'. Leave it out: elsewhere statistics travel with the gradients"
        )
    return True


def _gradients_needed(backups: int, settings: Settings, workers: int, *, sync: bool) -> int | None:
    """How many gradients make an update if those of `backups` workers may be late; None if none
    may."""
    if not backups:
        return None
    if not sync:
        raise UsageError(
            "backup_workers is for synchronous training; "
            "asynchronous workers do not wait for each other: leave it out"
        )
    if backups >= workers:
        raise UsageError(
            f"{counted(backups, 'backup worker')} of {counted(workers, 'worker')} leave no "
            f"gradient to wait for; lower backup_workers to {workers - 1} or less"
        )
    if settings.moving_statistics == "sync":
        raise UsageError(
            "moving_statistics 'sync' takes moments over the batches of all workers, so each "
            "step needs every one of them, and backup_workers goes on without the last ones; "
            "choose moving_statistics 'mean', or no backup workers"
        )
    return workers - backups
