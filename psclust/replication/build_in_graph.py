"""In-graph replication: one graph with one tower a worker, driven by one client.

Synchronous: one run of the graph computes every tower, averages their gradients by example and updates each variable once.
Asynchronous: every tower has a train op of its own, which one client thread runs again and again against the shared variables.
One process without a cluster is the same graph, with a tower for each of its devices; with one, and without device names, by default.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from psclust.errors import UsageError
from psclust.replication.device_layout import Layout
from psclust.replication.input.end_of_data import await_batch, until_all_ended
from psclust.replication.input.replica_input import ReplicaInput, build_input
from psclust.replication.input.split_batch import split_input
from psclust.replication.model import Model, Shard
from psclust.replication.settings import Settings
from psclust.replication.statistics.sharing import keeps_per_tower, shares_moments
from psclust.replication.statistics.tower_statistics import move_own
from psclust.replication.sync.all_reduce import InGraphAllReduce
from psclust.replication.towers.tower import Tower, TowerKind, build_tower
from psclust.replication.update.apply_update import apply_update
from psclust.replication.update.gradients import by_host, weighted_mean
from psclust.replication.update.train_op import advance_with, refuse_train_op
from psclust.replication.variables.dry_build import places_for
from psclust.replication.variables.places import TOWER_SCOPE
from psclust.replication.variables.training_state import State, create_state
from psclust.replication.wire.buckets import send_gradients
from psclust.replication.wire.pulls import pull_once


@dataclass(frozen=True)
class StepOps:
    """One training step. step: int64, the global step after it. loss: scalar, weighted by examples. examples: int64, how many the step
    used. staleness: int64, updates of other replicas that the gradient did not know of; None where there are none. fetches: what a run
    of it fetches, with one message from each task: (int64 [1 or 2], step and staleness; float64 [2], loss and examples)."""

    step: Any
    loss: Any
    examples: Any
    staleness: Any
    fetches: Sequence[Any]


@dataclass(frozen=True)
class InGraph:
    """steps: one for all towers (sync) or one for each (async). inputs: one for each tower, or one that all of them share. filled: inputs
    that have ended are filled up, until all have."""

    state: State
    steps: Sequence[StepOps]
    inputs: Sequence[ReplicaInput]
    towers: Sequence[Tower]
    filled: bool = False


def build_in_graph(model: Model, layout: Layout, *, sync: bool) -> InGraph:
    """Builds the towers of all workers of `layout` in the current graph.

    Raises UsageError where there is no worker to hold a tower or no ps to hold a variable, and where the user's functions break their
    contract.
    """
    if not layout.workers:
        raise UsageError("in-graph replication needs at least one worker to hold a tower; raise the worker count (--workers 1)")
    if layout.client and not layout.ps:
        raise UsageError("in-graph replication needs at least one ps to hold the variables; raise the ps count (--ps 1)")
    several = len(layout.workers) > 1
    shared = several and _splits(model.config, sync=sync)
    filled = several and sync and not shared and not model.config.drop_uneven
    state = create_state(layout, model.config.accumulate, together=shared)
    with tf.device(layout.parameters):
        optimizer = model.optimizer(state.global_step)
    strategy = places_for(model, layout)
    inputs = _shared_input(model, layout) if shared else [None] * len(layout.workers)
    all_reduce = InGraphAllReduce(len(layout.workers)) if shares_moments(model.config, layout, sync=sync) else None
    kind = TowerKind(weighted=several and sync, fill=filled or shared, bare=bool(layout.client))
    towers: list[Tower] = []
    before = len(tf.compat.v1.get_default_graph().get_operations())
    for replica in range(len(layout.workers)):
        with tf.name_scope(f"{TOWER_SCOPE}{replica}"):
            own = replace(kind, reuse=replica > 0, all_reduce=all_reduce.for_tower(replica) if all_reduce else None)
            towers.append(build_tower(model, optimizer, layout, strategy, replica, own, inputs[replica]))
        if several or layout.client:
            refuse_train_op(towers[-1], "in-graph replication" if layout.client else "one process with several devices")
    if all_reduce:
        all_reduce.connect()
    pull_once(before)
    build_steps = _sync_steps if sync or not several else _async_steps
    steps = build_steps(towers, optimizer, state, layout, model.config)
    return InGraph(state, steps, [tower.input for tower in (towers[:1] if shared else towers)], towers, filled)


def _splits(settings: Settings, *, sync: bool) -> bool:
    if settings.split_batch and not sync:
        raise UsageError(
            "split_batch splits each batch over towers that step together, and the towers of an asynchronous in-graph training do not; "
            "train with --sync, or leave it out: each tower then reads a shard of its own"
        )
    return settings.split_batch


def _shared_input(model: Model, layout: Layout) -> list[ReplicaInput]:
    towers = len(layout.workers)
    with tf.device(layout.client or layout.parameters):
        return split_input(build_input(model, Shard(), fill=False, group=model.config.accumulate, divisor=towers), towers)


def _sync_steps(towers: Sequence[Tower], optimizer: Any, state: State, layout: Layout, settings: Settings) -> list[StepOps]:
    examples = [tower.input.examples for tower in towers]
    if len(towers) == 1:
        return [tower_step(towers[0], towers[0].update_ops, optimizer, state, layout, 0, settings)]
    with tf.device(layout.client):
        total = until_all_ended(tf.add_n(examples))
        weights = tf.cast(tf.stack(examples), tf.float64)
        loss = tf.reduce_sum(tf.stack([tf.cast(tower.loss, tf.float64) for tower in towers]) * weights) / tf.reduce_sum(weights)
        used = tf.cast(tf.stack(examples) > 0, tf.int64)
    built = len(tf.compat.v1.get_default_graph().get_operations())
    hosts = by_host([tower.contributions for tower in towers], layout.workers)
    contributions = [send_gradients(sums, host) for host, sums in hosts.items()]
    gradients, statistics = towers[0].divide(weighted_mean(contributions, total))
    own = keeps_per_tower(settings, len(towers), in_step=True)
    # Moving statistics are one set of variables that all towers share; letting each tower write them would apply them in random order.
    with tf.device(layout.parameters), tf.control_dependencies(list(towers[0].update_ops)):
        applied = apply_update(optimizer, gradients, () if own else statistics, state, layout, settings)
        if own:
            applied = [*applied, *move_own(towers, layout.workers, state, settings.statistics_every)]
    shared = state.positions.shape[0] == 1
    step = state.advance(applied, replica=0) if shared else state.advance(applied, batches=used)
    await_batch(step, total, built)
    return [step_ops(step, loss, total)]


def _async_steps(towers: Sequence[Tower], optimizer: Any, state: State, layout: Layout, settings: Settings) -> list[StepOps]:
    return [
        tower_step(tower, tower.update_ops if replica == 0 else (), optimizer, state, layout, replica, settings)
        for replica, tower in enumerate(towers)
    ]


def tower_step(
    tower: Tower, update_ops: Sequence[Any], optimizer: Any, state: State, layout: Layout, replica: int, settings: Settings
) -> StepOps:
    if tower.spec.train_op is not None:
        return _alone(advance_with(tower, state, replica), tower, state, layout)
    keeps_per_tower(settings, len(layout.towers.workers), in_step=False)
    # Replicas that are not in step move shared statistics one after another, each by its share.
    statistics = [statistic.shared(len(layout.workers)) for statistic in tower.statistics]
    built = len(tf.compat.v1.get_default_graph().get_operations())
    gradients = send_gradients(tower.gradients, layout.workers[replica])
    with tf.device(layout.parameters), tf.control_dependencies(list(update_ops)):
        applied = apply_update(optimizer, gradients, statistics, state, layout, settings)
    step = state.advance(applied, replica=replica)
    # At the end of the data not even what depends on no gradient may run, such as the decay of Adam's moments of a sparse variable.
    await_batch(step, tower.input.examples, built)
    return _alone(step, tower, state, layout)


def _alone(step: Any, tower: Tower, state: State, layout: Layout) -> StepOps:
    """The step of a tower that makes its updates by itself."""
    return step_ops(step, tower.loss, tower.input.examples, state.staleness(step) if len(layout.workers) > 1 else None)


def step_ops(step: Any, loss: Any, examples: Any, staleness: Any = None) -> StepOps:
    with tf.device(step.device):
        counts = tf.stack([step] if staleness is None else [step, staleness])
    with tf.device(loss.device):
        report = tf.stack([tf.cast(loss, tf.float64), tf.cast(examples, tf.float64)])
    return StepOps(step, loss, examples, staleness, (counts, report))
