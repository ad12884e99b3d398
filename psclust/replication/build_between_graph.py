"""Between-graph replication: every worker builds its own graph with one replica of the model, which may be several towers, and drives it
through its own session.

The variables are the same in all graphs because every worker creates them in the same order under the same names. Asynchronous workers
apply their gradients as they come; synchronous ones push them to the barrier (`barrier_ops`), and the chief applies the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from psclust.errors import UsageError
from psclust.replication.build_in_graph import StepOps, tower_step
from psclust.replication.device_layout import Layout
from psclust.replication.input.replica_input import ReplicaInput
from psclust.replication.model import Model
from psclust.replication.statistics.sharing import keeps_per_tower, shares_moments
from psclust.replication.sync.all_reduce import BetweenGraphAllReduce, InGraphAllReduce
from psclust.replication.sync.backup_ops import gradients_needed
from psclust.replication.sync.barrier_ops import CoordinatorOps, ParticipantOps, build_channel, coordinator_ops, participant_ops
from psclust.replication.towers.local_towers import build_local_towers
from psclust.replication.towers.tower import Tower, TowerKind, build_tower
from psclust.replication.update.train_op import refuse_train_op
from psclust.replication.variables.dry_build import places_for
from psclust.replication.variables.training_state import State, create_state
from psclust.replication.wire.pulls import pull_once


@dataclass(frozen=True)
class BetweenGraph:
    """One worker's graph. step: what an asynchronous step fetches; None when synchronous, where `participant` has the replica's side of
    the barrier and `coordinator`, on the chief only, the other side. tower: all of `towers`, those on the worker's devices, as one."""

    state: State
    input: ReplicaInput
    tower: Tower
    step: StepOps | None
    participant: ParticipantOps | None
    coordinator: CoordinatorOps | None
    towers: Sequence[Tower] = ()

    @property
    def next_step(self) -> Any:
        """int64 scalar, the global step that a run of this replica's step leads to."""
        ops = self.step or self.participant
        assert ops is not None
        return ops.step if isinstance(ops, StepOps) else ops.step[0][-1]


def build_between_graph(model: Model, layout: Layout, replica: int, *, sync: bool, chief: bool, backups: int = 0) -> BetweenGraph:
    """Builds the graph of replica number `replica` of `layout` in the current graph. A synchronous step waits for all but `backups`.

    Raises UsageError where there is no ps to hold the variables and where the user's functions break their contract.
    """
    if not layout.ps:
        raise UsageError("between-graph replication needs at least one ps to hold the variables; raise the ps count (--ps 1)")
    state = create_state(layout, model.config.accumulate, inputs=1 if model.config.split_batch else len(layout.devices))
    with tf.device(layout.parameters):
        optimizer = model.optimizer(state.global_step)
    needed = gradients_needed(backups, model.config, layout, sync=sync)
    all_reduce, local = _all_reduces(model, layout, replica, sync=sync)
    # Who has ended its data stays until all have: the others wait for its moments.
    kind = TowerKind(weighted=sync, fill=all_reduce is not None and not model.config.drop_uneven)
    strategy = places_for(model, layout)
    before = len(tf.compat.v1.get_default_graph().get_operations())
    if len(layout.devices) > 1:
        tower, towers = build_local_towers(model, optimizer, layout, strategy, replica, kind, local)
    else:
        kind = replace(kind, all_reduce=all_reduce.for_replica(replica) if all_reduce else None)
        tower = build_tower(model, optimizer, layout.towers, strategy, replica, kind)
        towers = [tower]
    pull_once(before)
    # Moving statistics have one writer, the chief's replica, as they have the first tower in-graph.
    updates = tower.update_ops if chief else ()
    if not sync:
        step = tower_step(tower, updates, optimizer, state, layout, replica, model.config)
        return BetweenGraph(state, tower.input, tower, step, None, None, towers)
    refuse_train_op(tower, "synchronous replication")
    keeps_per_tower(model.config, len(layout.towers.workers), in_step=False)
    channel = build_channel(tower.contributions, layout, all_reduce, needed)
    participant = participant_ops(tower, channel, layout, replica, updates)
    coordinator = coordinator_ops(tower, channel, optimizer, state, layout, model.config) if chief else None
    return BetweenGraph(state, tower.input, tower, None, participant, coordinator, towers)


def _all_reduces(model: Model, layout: Layout, replica: int, *, sync: bool) -> tuple[BetweenGraphAllReduce | None, InGraphAllReduce | None]:
    """(between the workers, between all towers) where moments are shared: those of a worker's towers meet in its graph, and their sum
    meets the others' on the ps. A worker alone needs no ps for that."""
    if not shares_moments(model.config, layout.towers, sync=sync or len(layout.workers) == 1):
        return None, None
    outer = BetweenGraphAllReduce(layout) if len(layout.workers) > 1 else None
    return outer, InGraphAllReduce(len(layout.devices), len(layout.towers.workers), outer.for_replica(replica) if outer else None)
