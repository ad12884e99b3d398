"""In-graph replication: one graph with one tower a worker, driven by one client.

Synchronous: one run of the graph computes every tower, averages their gradients by example and updates each variable once.
Asynchronous: every tower has a train op of its own, which one client thread runs again and again against the shared variables.
One process without a cluster is the same graph with one tower and no device names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from psclust.errors import UsageError
from psclust.replication.devices import RoundRobin
from psclust.replication.gradients import weighted_mean
from psclust.replication.inputs import ReplicaInput
from psclust.replication.layout import Layout
from psclust.replication.model import Model
from psclust.replication.state import State, create_state
from psclust.replication.tower import Tower, TowerKind, build_tower
from psclust.replication.train_op import advance_with, refuse_train_op

# The name of the op that ends a synchronous run of towers: all of them have come to the end of their data.
END_OF_DATA = "psclust_end_of_data"


@dataclass(frozen=True)
class StepOps:
    """What one training step fetches. step: int64, the global step after it. loss: scalar, weighted by examples.
    examples: int64, how many the step used."""

    step: Any
    loss: Any
    examples: Any

    def fetches(self) -> list[Any]:
        return [self.step, self.loss, self.examples]


@dataclass(frozen=True)
class InGraph:
    """steps: one for all towers (sync) or one for each (async). inputs: one for each tower."""

    state: State
    steps: Sequence[StepOps]
    inputs: Sequence[ReplicaInput]
    towers: Sequence[Tower]


def build_in_graph(model: Model, layout: Layout, *, sync: bool) -> InGraph:
    """Builds the towers of all workers of `layout` in the current graph.

    Raises UsageError where there is no worker to hold a tower or no ps to hold a variable, and where the user's functions break their
    contract.
    """
    if not layout.workers:
        raise UsageError("in-graph replication needs at least one worker to hold a tower; raise the worker count (--workers 1)")
    if layout.client and not layout.ps:
        raise UsageError("in-graph replication needs at least one ps to hold the variables; raise the ps count (--ps 1)")
    state = create_state(layout)
    with tf.device(layout.parameters):
        optimizer = model.optimizer(state.global_step)
    several = len(layout.workers) > 1
    strategy = RoundRobin(layout.ps)
    towers = []
    for replica in range(len(layout.workers)):
        with tf.name_scope(f"tower_{replica}"):
            kind = TowerKind(reuse=replica > 0, weighted=several and sync, fill=several and sync, bare=bool(layout.client))
            towers.append(build_tower(model, optimizer, layout, strategy, replica, kind))
        if several or layout.client:
            refuse_train_op(towers[-1], "in-graph replication")
    steps = [_sync_step(towers, optimizer, state, layout)] if sync or not several else _async_steps(towers, optimizer, state, layout)
    return InGraph(state, steps, [tower.input for tower in towers], towers)


def _sync_step(towers: Sequence[Tower], optimizer: Any, state: State, layout: Layout) -> StepOps:
    examples = [tower.input.examples for tower in towers]
    if len(towers) == 1:
        return _tower_step(towers[0], towers[0].update_ops, optimizer, state, layout, 0)
    with tf.device(layout.client):
        total = tf.add_n(examples)
        some_left = tf.debugging.Assert(total > 0, ["every tower has ended its data"], name=END_OF_DATA)
        weights = tf.cast(tf.stack(examples), tf.float64)
        loss = tf.reduce_sum(tf.stack([tf.cast(tower.loss, tf.float64) for tower in towers]) * weights) / tf.reduce_sum(weights)
        used = tf.cast(tf.stack(examples) > 0, tf.int64)
    mean = weighted_mean([tower.gradients for tower in towers], examples)
    # Moving statistics are one set of variables that all towers share; letting each tower write them would apply them in random order.
    with tf.device(layout.parameters), tf.control_dependencies([some_left, *towers[0].update_ops]):
        applied = optimizer.apply_gradients(mean)
    return StepOps(state.advance([applied], batches=used), loss, total)


def _async_steps(towers: Sequence[Tower], optimizer: Any, state: State, layout: Layout) -> list[StepOps]:
    return [
        _tower_step(tower, tower.update_ops if replica == 0 else (), optimizer, state, layout, replica)
        for replica, tower in enumerate(towers)
    ]


def _tower_step(tower: Tower, update_ops: Sequence[Any], optimizer: Any, state: State, layout: Layout, replica: int) -> StepOps:
    if tower.spec.train_op is not None:
        return StepOps(advance_with(tower, state, replica), tower.loss, tower.input.examples)
    with tf.device(layout.parameters), tf.control_dependencies(list(update_ops)):
        applied = optimizer.apply_gradients(tower.gradients)
    return StepOps(state.advance([applied], replica=replica), tower.loss, tower.input.examples)
