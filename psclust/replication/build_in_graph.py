"""In-graph replication: one graph with one tower a worker, driven by one client.

Synchronous: one run of the graph computes every tower, averages their gradients by example and
updates each variable once.
Asynchronous: every tower has a train op of its own, which a client thread runs in a loop against
the shared variables. A process without a cluster builds the same graph, with a tower for each of
its devices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from psclust.replication.device_function import TOWER_SCOPE
from psclust.replication.device_layout import DeviceLayout, host_of
from psclust.replication.gradients import by_host, weighted_mean
from psclust.replication.graph_plan import InGraphPlan, plan_in_graph
from psclust.replication.input.end_of_data import until_all_ended
from psclust.replication.input.replica_input import ReplicaInput, build_input
from psclust.replication.input.split_batch import split_input
from psclust.replication.model import Model, Shard
from psclust.replication.passes.batch_first import await_batch
from psclust.replication.passes.crossings import use_own_wire
from psclust.replication.passes.local_copies import LocalCopy, copy_locally, refresh
from psclust.replication.passes.narrow import narrow
from psclust.replication.passes.pulls import pull_once
from psclust.replication.passes.sending import send_gradients
from psclust.replication.settings import Settings
from psclust.replication.state_changes import state_changes
from psclust.replication.statistics.tower_statistics import move_own
from psclust.replication.tf_types import Operation, Optimizer, Tensor
from psclust.replication.towers.tower import Tower, build_tower, refuse_train_op, taken_by
from psclust.replication.towers.tower_all_reduce import InGraphAllReduce
from psclust.replication.towers.tower_kind import TowerKind
from psclust.replication.update.apply_update import apply_update
from psclust.replication.update.step_ops import StepOps, step_ops, tower_step
from psclust.replication.variables.places import Places
from psclust.replication.variables.training_state import State, create_state


@dataclass(frozen=True)
class InGraph:
    """steps: one for all towers (sync) or one for each (async). inputs: one for each tower, or one
    that all of them split.
    padded: inputs that end go on with padding batches until all have ended."""

    state: State
    steps: Sequence[StepOps]
    inputs: Sequence[ReplicaInput]
    towers: Sequence[Tower]
    padded: bool = False


def build_in_graph(
    model: Model, layout: DeviceLayout, *, sync: bool, bounded: bool = False
) -> InGraph:
    """Builds the towers of all workers of `layout` in the current graph. bounded: staleness has a
    bound. Raises UsageError as `plan_in_graph` does, and if the user's functions break their
    contract."""
    plan = plan_in_graph(model.config, layout, sync=sync, bounded=bounded)
    state = create_state(
        layout,
        model.config.accumulate,
        together=plan.split_on is not None,
        parts=model.parts if model.config.handed_out else None,
    )
    with tf.device(layout.parameters):
        optimizer = model.optimizer(state.global_step)
    towers = _build_towers(model, optimizer, layout, plan)
    copies: Sequence[LocalCopy] = ()
    wire_dtype, gradients = model.config.wire_dtype, [tower.gradients for tower in towers]
    if plan.copies:
        copies = copy_locally(gradients, plan.towers, wire_dtype, together=plan.combined)
    pull_once(wire_dtype)
    if plan.combined:
        steps = [_combined_step(towers, optimizer, state, layout, model.config, plan, copies)]
    else:
        # Moving statistics are one set of variables. If every tower wrote them, they would change
        # in random order.
        updates = [tower.update_ops if replica == 0 else () for replica, tower in enumerate(towers)]
        own = [[copy for copy in copies if copy.host == host_of(worker)] for worker in plan.towers]
        steps = [
            tower_step(tower, updates[i], optimizer, state, layout, i, model.config, own[i])
            for i, tower in enumerate(towers)
        ]
    narrow(wire_dtype)
    use_own_wire()
    inputs = [tower.input for tower in (towers[:1] if plan.split_on is not None else towers)]
    return InGraph(state, steps, inputs, towers, plan.padded)


def _build_towers(
    model: Model, optimizer: Optimizer, layout: DeviceLayout, plan: InGraphPlan
) -> list[Tower]:
    strategy = Places(layout.ps, layout.placement, layout.decided)
    inputs = _split_input(model, plan) if plan.split_on is not None else [None] * len(plan.towers)
    all_reduce = InGraphAllReduce(len(plan.towers)) if plan.share_moments else None
    towers: list[Tower] = []
    for index, data in enumerate(inputs):
        kind = TowerKind.in_graph(plan, index, all_reduce.for_tower(index) if all_reduce else None)
        with tf.name_scope(f"{TOWER_SCOPE}{index}"):
            towers.append(build_tower(model, optimizer, layout, strategy, index, kind, data))
        if not plan.train_op:
            refuse_train_op(
                towers[-1],
                "in-graph replication" if plan.bare else "one process with several devices",
            )
    if all_reduce:
        all_reduce.connect()
    return towers


def _split_input(model: Model, plan: InGraphPlan) -> list[ReplicaInput]:
    count = len(plan.towers)
    with tf.device(plan.split_on):
        return split_input(
            build_input(model, Shard(), pad=False, group=model.config.accumulate, divisor=count),
            count,
        )


def _combined_step(
    towers: Sequence[Tower],
    optimizer: Optimizer,
    state: State,
    layout: DeviceLayout,
    settings: Settings,
    plan: InGraphPlan,
    copies: Sequence[LocalCopy],
) -> StepOps:
    """The step that updates the variables once, by the mean gradient of all towers."""
    examples = [tower.input.examples for tower in towers]
    with tf.device(layout.client):
        total = until_all_ended(tf.add_n(examples))
        used = tf.cast(tf.stack(examples) > 0, tf.int64)
    hosts = by_host([tower.contributions for tower in towers], plan.towers)
    contributions = [
        send_gradients(sums, host, settings.wire_dtype, in_turn=bool(copies))
        for host, sums in hosts.items()
    ]
    gradients, statistics = towers[0].divide(weighted_mean(contributions, total))
    with tf.device(layout.parameters), tf.control_dependencies(list(towers[0].update_ops)):
        applied = apply_update(
            optimizer, gradients, () if plan.own_statistics else statistics, state, layout, settings
        )
        if plan.own_statistics:
            applied = [*applied, *move_own(towers, plan.towers, state, settings.statistics_every)]
    with tf.device(layout.client):
        taken = taken_by(towers)
    step = (
        state.advance(applied, batches=used, taken=taken)
        if plan.split_on is None
        else state.advance(applied, replica=0)
    )
    changes = state_changes([step.op], [root for tower in towers for root in tower.roots])
    await_batch(changes, total)
    losses = _after_refresh(towers, plan, refresh(copies, changes))
    with tf.device(layout.client):
        weights = tf.cast(tf.stack(examples), tf.float64)
        loss = tf.reduce_sum(
            tf.stack([tf.cast(loss, tf.float64) for loss in losses]) * weights
        ) / tf.reduce_sum(weights)
    return step_ops(layout.client, step, loss, total, taken=taken)


def _after_refresh(
    towers: Sequence[Tower], plan: InGraphPlan, refreshed: Mapping[str, Operation]
) -> list[Tensor]:
    """The losses of the towers; each travels to the client when its worker's copies are up to
    date."""
    losses = []
    for tower, worker in zip(towers, plan.towers, strict=True):
        with (
            tf.device(worker),
            tf.control_dependencies(
                [refreshed[host] for host in [host_of(worker)] if host in refreshed]
            ),
        ):
            losses.append(tf.identity(tower.loss))
    return losses
