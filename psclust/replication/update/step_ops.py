"""The ops of one training step, and the step of a tower that updates the variables alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from psclust.replication.by_device import moved
from psclust.replication.device_layout import DeviceLayout
from psclust.replication.graph_walk import before, reached
from psclust.replication.passes.batch_first import await_batch
from psclust.replication.passes.local_copies import LocalCopy, refresh
from psclust.replication.passes.sending import send_gradients
from psclust.replication.settings import Settings
from psclust.replication.state_changes import state_changes
from psclust.replication.tf_types import Operation, Optimizer, Tensor, Variable
from psclust.replication.towers.tower import Tower
from psclust.replication.update.apply_update import apply_update
from psclust.replication.variables.training_state import State


@dataclass(frozen=True)
class StepOps:
    """step: int64, the global step after it. loss: scalar, weighted by examples. examples: int64,
    how many the step used.
    staleness: int64, updates by other replicas between reading the variables and this update; None
    where there are no others.
    fetches: what a run fetches, on the client, with one message from each task: (int64 [1 or 2],
    step and staleness; float64 [2], loss and examples; where parts are handed out, the part of each
    batch after them, -1 for padding)."""

    step: Tensor
    loss: Tensor
    examples: Tensor
    staleness: Tensor | None
    fetches: Sequence[Tensor]


def step_ops(
    client: str,
    step: Tensor,
    loss: Tensor,
    examples: Tensor,
    staleness: Tensor | None = None,
    taken: Tensor | None = None,
) -> StepOps:
    """client: the device of the process that runs the step."""
    with tf.device(step.device):
        counts = tf.stack([step] if staleness is None else [step, staleness])
    with tf.device(loss.device):
        results = tf.stack([tf.cast(loss, tf.float64), tf.cast(examples, tf.float64)])
        if taken is not None:
            parts = tf.where(taken[:, 1] > 0, taken[:, 0], -1)
            results = tf.concat([results, tf.cast(parts, tf.float64)], 0)
    return StepOps(
        step, loss, examples, staleness, [moved(each, client) for each in (counts, results)]
    )


def tower_step(
    tower: Tower,
    update_ops: Sequence[Operation],
    optimizer: Optimizer,
    state: State,
    layout: DeviceLayout,
    replica: int,
    settings: Settings,
    copies: Sequence[LocalCopy] = (),
) -> StepOps:
    """The step in which `tower` alone updates the variables, by its gradients or its own train_op,
    and then brings its `copies` of them up to date."""
    refreshed: Sequence[Operation] = ()
    begun = state.begun() if len(layout.workers) > 1 and not copies else None
    if tower.spec.train_op is not None:
        step = _advance_with(tower, state, replica)
    else:
        # Asynchronous replicas move shared statistics one after another, each by its share.
        statistics = [statistic.shared(len(layout.workers)) for statistic in tower.statistics]
        gradients = send_gradients(
            tower.gradients, layout.workers[replica], settings.wire_dtype, in_turn=bool(copies)
        )
        with tf.device(layout.parameters), tf.control_dependencies(list(update_ops)):
            applied = apply_update(optimizer, gradients, statistics, state, layout, settings)
        step = state.advance(
            applied if begun is None else [*applied, begun.op],
            replica=replica,
            taken=tower.input.taken,
        )
        # At the end of the data no op may change a variable, not even one that needs no gradient,
        # such as the decay of Adam's moments.
        changes = state_changes([step.op], tower.roots)
        await_batch(changes, tower.input.examples)
        refreshed = list(refresh(copies, changes).values())
    staleness = None
    if len(layout.workers) > 1:
        staleness = (
            state.staleness_of_copies(step, replica)
            if begun is None
            else state.staleness(begun, step)
        )
    with tf.device(tower.loss.device), tf.control_dependencies(refreshed):
        loss = tf.identity(tower.loss)
    data = tower.input
    return step_ops(layout.client, step, loss, data.examples, staleness, data.taken)


def _advance_with(tower: Tower, state: State, replica: int) -> Tensor:
    """Runs the train_op that the model function brought as one step of `replica`. Returns the
    new step, int64 scalar; advances it if the train_op does not (`optimizer.minimize(loss)` without
    `global_step`)."""
    train_op = tower.spec.train_op
    operation = (
        train_op if isinstance(train_op, tf.Operation) else tf.convert_to_tensor(train_op).op
    )
    return state.advance(
        [operation],
        replica=replica,
        taken=tower.input.taken,
        counted=_writes(operation, state.global_step),
    )


def _writes(operation: Operation, variable: Variable) -> bool:
    """Whether running `operation` assigns to `variable`."""
    holder = variable.handle.op.name
    assigns = (
        one for one in reached([operation], before).values() if one.type.startswith("Assign")
    )
    return any(value.op.name == holder for one in assigns for value in one.inputs)
