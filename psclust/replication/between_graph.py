"""Between-graph replication: every worker builds its own graph with one replica of the model and drives it through its own session.

The variables are the same in all graphs because every worker creates them in the same order under the same names. Asynchronous workers
apply their gradients as they come; synchronous ones push them to the barrier (`barrier_ops`), and the chief applies the mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from psclust.errors import UsageError
from psclust.replication.barrier_ops import ChiefOps, WorkerOps, build_channel, chief_ops, worker_ops
from psclust.replication.devices import RoundRobin
from psclust.replication.in_graph import StepOps
from psclust.replication.inputs import ReplicaInput
from psclust.replication.layout import Layout
from psclust.replication.model import Model
from psclust.replication.state import State, create_state
from psclust.replication.tower import Tower, TowerKind, build_tower
from psclust.replication.train_op import advance_with, refuse_train_op


@dataclass(frozen=True)
class BetweenGraph:
    """One worker's graph. step: what an asynchronous step fetches; None when synchronous, where `worker` has the replica's side of the
    barrier and `chief`, on the chief only, the other side."""

    state: State
    input: ReplicaInput
    tower: Tower
    step: StepOps | None
    worker: WorkerOps | None
    chief: ChiefOps | None


def build_between_graph(model: Model, layout: Layout, replica: int, *, sync: bool, chief: bool) -> BetweenGraph:
    """Builds the graph of replica number `replica` of `layout` in the current graph.

    Raises UsageError where there is no ps to hold the variables and where the user's functions break their contract.
    """
    if not layout.ps:
        raise UsageError("between-graph replication needs at least one ps to hold the variables; raise the ps count (--ps 1)")
    state = create_state(layout)
    with tf.device(layout.parameters):
        optimizer = model.optimizer(state.global_step)
    tower = build_tower(model, optimizer, layout, RoundRobin(layout.ps), replica, TowerKind(weighted=sync))
    if not sync:
        return BetweenGraph(state, tower.input, tower, _async_step(tower, optimizer, state, layout, replica), None, None)
    refuse_train_op(tower, "synchronous replication")
    channel = build_channel(tower.gradients, layout)
    # Moving statistics have one writer, the chief's replica, as they have the first tower in-graph.
    worker = worker_ops(tower, channel, layout, replica, tower.update_ops if chief else ())
    chiefs = chief_ops(tower, channel, optimizer, state, layout) if chief else None
    return BetweenGraph(state, tower.input, tower, None, worker, chiefs)


def _async_step(tower: Tower, optimizer: Any, state: State, layout: Layout, replica: int) -> StepOps:
    if tower.spec.train_op is not None:
        return StepOps(advance_with(tower, state, replica), tower.loss, tower.input.examples)
    with tf.device(layout.parameters), tf.control_dependencies(list(tower.update_ops)):
        applied = optimizer.apply_gradients(tower.gradients)
    return StepOps(state.advance([applied], replica=replica), tower.loss, tower.input.examples)
