"""Between-graph replication: every worker builds its own graph with one replica of the model, which
may be several towers, and runs it in its own session.

All workers create the same variables in the same order under the same names. Asynchronous workers
apply their gradients as they come; synchronous ones push them to the barrier (`barrier_ops`), and
the chief applies the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from psclust.placement.streamed import takes_long
from psclust.replication.device_layout import DeviceLayout
from psclust.replication.graph_plan import BetweenGraphPlan, plan_between_graph
from psclust.replication.input.replica_input import ReplicaInput
from psclust.replication.model import Model
from psclust.replication.passes.crossings import use_own_wire
from psclust.replication.passes.local_copies import LocalCopy, can_copy_all, copy_locally
from psclust.replication.passes.narrow import narrow
from psclust.replication.passes.pulls import pull_once
from psclust.replication.private_tensorflow import slice_of
from psclust.replication.sync.all_reduce import BetweenGraphAllReduce
from psclust.replication.sync.barrier_channel import build_channel
from psclust.replication.sync.coordinator_ops import CoordinatorOps, coordinator_ops
from psclust.replication.sync.participant_ops import ParticipantOps, participant_ops
from psclust.replication.tf_types import Optimizer, Tensor
from psclust.replication.towers.local_towers import build_local_towers
from psclust.replication.towers.tower import Tower, build_tower, refuse_train_op
from psclust.replication.towers.tower_all_reduce import InGraphAllReduce
from psclust.replication.towers.tower_kind import TowerKind
from psclust.replication.update.step_ops import StepOps, tower_step
from psclust.replication.variables.places import Places
from psclust.replication.variables.training_state import State, create_state


@dataclass(frozen=True)
class BetweenGraph:
    """One worker's graph. step: the asynchronous step; None if synchronous, where `participant` is
    the worker's side of the barrier, and `coordinator`, on the chief only, the other side. tower:
    the `towers` on the worker's devices joined into one."""

    state: State
    input: ReplicaInput
    tower: Tower
    step: StepOps | None
    participant: ParticipantOps | None
    coordinator: CoordinatorOps | None
    towers: Sequence[Tower] = ()

    @property
    def streamed(self) -> Sequence[str]:
        """The variables of which a step needs a gradient of every worker, by name; none if steps
        are not streamed."""
        if self.participant is None or not self.participant.pull:
            return ()
        return [variable.op.name for _, variable in self.tower.contributions]

    @property
    def next_step(self) -> Tensor:
        """int64 scalar, the global step after this replica's step."""
        ops = self.step or self.participant
        assert ops is not None
        return ops.step if isinstance(ops, StepOps) else ops.next_step


def build_between_graph(
    model: Model,
    layout: DeviceLayout,
    replica: int,
    *,
    sync: bool,
    chief: bool,
    backups: int = 0,
    bounded: bool = False,
) -> BetweenGraph:
    """Builds the graph of worker number `replica` of `layout` in the current graph. A synchronous
    step waits for all but `backups` workers. bounded: staleness has a bound. Raises UsageError as
    `plan_between_graph` does, and if the user's functions break their contract."""
    plan = plan_between_graph(
        model.config, layout, replica, sync=sync, backups=backups, bounded=bounded
    )
    state = create_state(
        layout,
        model.config.accumulate,
        inputs=plan.inputs,
        parts=model.parts if model.config.handed_out else None,
    )
    with tf.device(layout.parameters):
        optimizer = model.optimizer(state.global_step)
    with tf.device(layout.client):
        all_reduce = (
            BetweenGraphAllReduce(layout)
            if plan.share_moments and len(layout.workers) > 1
            else None
        )
    tower, towers = _build_towers(model, optimizer, layout, replica, plan, all_reduce)
    copies: Sequence[LocalCopy] = ()
    wire_dtype = model.config.wire_dtype
    if plan.copies and (not sync or _streams(tower, plan.towers, layout.ps)):
        # The variables may have no value yet when the session of a synchronous worker starts.
        copies = copy_locally(
            [tower.gradients], plan.towers, wire_dtype, together=True, of_session=not sync
        )
    pull_once(wire_dtype)
    # Only the chief's replica writes moving statistics, as only the first tower does in-graph.
    updates = tower.update_ops if chief else ()
    step, participant, coordinator = None, None, None
    if sync:
        refuse_train_op(tower, "synchronous replication")
        channel = build_channel(tower.contributions, layout, all_reduce, plan.needed, copies)
        participant = participant_ops(tower, channel, layout, replica, updates, model.config)
        if chief:
            coordinator = coordinator_ops(tower, channel, optimizer, state, layout, model.config)
    else:
        step = tower_step(tower, updates, optimizer, state, layout, replica, model.config, copies)
    narrow(wire_dtype)
    use_own_wire()
    return BetweenGraph(state, tower.input, tower, step, participant, coordinator, towers)


def _streams(tower: Tower, workers: Sequence[str], ps: int) -> bool:
    """Whether a synchronous worker's variables come back while gradients leave: all do or none,
    because a variable that a step pulls as it needs it must not change before the end of the
    step."""
    variables = [variable for _, variable in tower.gradients]
    resources = all(hasattr(variable, "handle") for variable in tf.compat.v1.global_variables())
    whole: list[int] = []
    shards: list[int] = []
    for variable in variables:
        sizes = whole if slice_of(variable) is None else shards
        sizes.append(variable.shape.num_elements() * variable.dtype.size)
    return resources and takes_long(whole, shards, ps) and can_copy_all(tower.gradients, workers)


def _build_towers(
    model: Model,
    optimizer: Optimizer,
    layout: DeviceLayout,
    replica: int,
    plan: BetweenGraphPlan,
    outer: BetweenGraphAllReduce | None,
) -> tuple[Tower, Sequence[Tower]]:
    """(the worker's towers as one, each of them). `outer` sums moments over the workers."""
    strategy, of_worker = (
        Places(layout.ps, layout.placement, layout.decided),
        outer.for_replica(replica) if outer else None,
    )
    if len(plan.towers) == 1:
        kind = TowerKind.between_graph(plan, of_worker)
        tower = build_tower(model, optimizer, layout.towers, strategy, replica, kind)
        return tower, [tower]
    inner = (
        InGraphAllReduce(len(plan.towers), len(layout.towers.workers), of_worker)
        if plan.share_moments
        else None
    )
    return build_local_towers(model, optimizer, layout, strategy, replica, plan, inner)
