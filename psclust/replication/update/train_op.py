"""A train_op that the model function brings, as Estimator model functions do: how a step runs
it."""

from __future__ import annotations

import tensorflow as tf

from psclust.replication.graph_walk import before, reached
from psclust.replication.tf_types import Operation, Tensor, Variable
from psclust.replication.towers.tower import Tower
from psclust.replication.variables.training_state import State


def advance_with(tower: Tower, state: State, replica: int) -> Tensor:
    """Runs the tower's own train_op as one step of `replica`. Returns the new step, int64 scalar;
    advances it if the train_op does not (`optimizer.minimize(loss)` without `global_step`)."""
    train_op = tower.spec.train_op
    operation = (
        train_op if isinstance(train_op, tf.Operation) else tf.convert_to_tensor(train_op).op
    )
    return state.advance(
        [operation], replica=replica, counted=_writes(operation, state.global_step)
    )


def _writes(operation: Operation, variable: Variable) -> bool:
    """Whether running `operation` assigns to `variable`."""
    holder = variable.handle.op.name
    assigns = (
        one for one in reached([operation], before).values() if one.type.startswith("Assign")
    )
    return any(value.op.name == holder for one in assigns for value in one.inputs)
