"""Where a train_op that the model function brings is refused."""

from __future__ import annotations

from psclust.errors import UsageError
from psclust.replication.towers.tower import Tower

_CHANGE = (
    "Change the model function to end in `return EstimatorSpec(mode, loss=loss)` without train_op, "
    "and give the optimizer to the program: `Program(model_fn, input_fn, optimizer_fn)` "
    "with `def optimizer_fn(params): return tf.compat.v1.train.AdamOptimizer(0.001)`"
)


def refuse_train_op(tower: Tower, how: str) -> None:
    """Raises UsageError if the tower has a train_op, which the replication described by `how`
    cannot use."""
    if tower.spec.train_op is not None:
        raise UsageError(
            f"model_fn returned a ready train_op, and in {how} the gradients "
            f"of all replicas are combined before one step is made. {_CHANGE}; "
            "or run it between-graph and asynchronous, where a train_op is used as it is"
        )
