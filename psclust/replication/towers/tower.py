"""A tower: one replica of the model in a graph, with its input, loss, gradients and update ops, on
the replica's worker."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import tensorflow as tf

from psclust.errors import UsageError
from psclust.placement.variable import Variable as Description
from psclust.replication.device_function import is_slot, replica_scope
from psclust.replication.device_layout import DeviceLayout, host_of
from psclust.replication.element_wise import needs_whole_variables
from psclust.replication.gradients import GradientsAndVariables, present, scale, summed
from psclust.replication.input.batches import known_examples
from psclust.replication.input.replica_input import ReplicaInput, build_input, refuse_python_input
from psclust.replication.model import EstimatorSpec, ModeKeys, Model, Shard
from psclust.replication.settings import refuse_ignored
from psclust.replication.tf_types import Operation, Optimizer, Tensor, Variable
from psclust.replication.towers.own_collections import own_collections, regularize_every_tower
from psclust.replication.towers.replica_context import Replica, Statistic, building
from psclust.replication.towers.silent_mistakes import warn_of_silent_mistakes
from psclust.replication.towers.tower_kind import TowerKind
from psclust.replication.variables.descriptions import describe
from psclust.replication.variables.places import Places


@dataclass(frozen=True)
class Tower:
    """loss: scalar, mean over the batch. gradients: (gradient, variable) of every trained variable,
    multiplied by the number of examples if the tower is weighted; none if `spec` has its own
    train_op. update_ops: ops that must run before a step counts (moving statistics). spec: the
    model function's result. statistics: moments to be combined with those of the other replicas,
    weighted like the gradients. summaries: serialized summaries of the model. variables: the global
    ones that the tower created, except slots."""

    input: ReplicaInput
    loss: Tensor
    gradients: GradientsAndVariables
    update_ops: Sequence[Operation]
    spec: EstimatorSpec
    statistics: Sequence[Statistic] = ()
    summaries: Sequence[Tensor] = ()
    variables: Sequence[Variable] = ()

    @property
    def described(self) -> Sequence[Description]:
        """Its variables; a partitioned one as a whole."""
        return describe(self.variables, self.gradients, train_op=self.spec.train_op is not None)

    @property
    def contributions(self) -> GradientsAndVariables:
        """Everything that is averaged over replicas: the gradients, then the statistics, each with
        its variable."""
        return [
            *self.gradients,
            *((statistic.value, statistic.variable) for statistic in self.statistics),
        ]

    @property
    def roots(self) -> Sequence[Operation]:
        """The ops for which all others of the tower's step are there."""
        values = [
            value.values if isinstance(value, tf.IndexedSlices) else value
            for value, _ in self.contributions
        ]
        return [self.loss.op, *(value.op for value in values), *self.update_ops]

    def divide(
        self, means: GradientsAndVariables
    ) -> tuple[GradientsAndVariables, Sequence[Statistic]]:
        """Splits the means of `contributions` into gradients and statistics. Variables that only
        another replica uses have a gradient."""
        momenta = {statistic.variable.ref(): statistic.momentum for statistic in self.statistics}
        gradients = [(mean, variable) for mean, variable in means if variable.ref() not in momenta]
        return gradients, [
            Statistic(v, mean, momenta[v.ref()]) for mean, v in means if v.ref() in momenta
        ]


def build_tower(
    model: Model,
    optimizer: Optimizer,
    layout: DeviceLayout,
    strategy: Places,
    replica: int,
    kind: TowerKind,
    data: ReplicaInput | None = None,
) -> Tower:
    """Builds replica number `replica` in the current graph. `data`: its part of an input shared
    with other towers; None builds its own input. Raises UsageError if the user's functions break
    their contract.

    If several batches are accumulated, the graph has the model once for each, and each starts after
    the gradients of the previous one.
    """
    settings = model.config
    worker = layout.workers[replica]
    if data is None:
        with tf.device(layout.client if model.input_on_client else host_of(worker)):
            data = build_input(
                model,
                Shard(replica, len(layout.workers)),
                pad=kind.maybe_empty,
                group=settings.accumulate,
            )
        if kind.bare and not kind.reuse and not model.input_on_client:
            refuse_python_input(tf.compat.v1.get_default_graph())
    made_before = {variable.ref() for variable in tf.compat.v1.global_variables()}
    parts: list[Tower] = []
    for number in range(settings.accumulate):
        scope = f"batch_{number}/" if number else None
        with (
            tf.name_scope(scope) if scope else nullcontext(),
            replica_scope(layout, worker, strategy),
            own_collections(),
        ):
            batch = _next_batch(parts[-1]) if parts else data
            parts.append(
                _build_part(
                    model,
                    optimizer,
                    batch,
                    replica,
                    kind.for_batch(number, settings.accumulate),
                    strategy,
                )
            )
    variables = [
        v for v in tf.compat.v1.global_variables() if v.ref() not in made_before and not is_slot(v)
    ]
    first = replace(parts[0], variables=variables)
    strategy.settle(lambda: first.described, needs_whole_variables(optimizer))
    if len(parts) == 1:
        return first
    with replica_scope(layout, worker, strategy):
        return replace(joined(parts, weighted=kind.weighted), variables=variables)


def _build_part(
    model: Model,
    optimizer: Optimizer,
    data: ReplicaInput,
    replica: int,
    kind: TowerKind,
    strategy: Places,
) -> Tower:
    """The model and its gradients for one batch, in the current device scope."""
    trained_before = tf.compat.v1.trainable_variables()
    current = Replica(
        tf.cast(data.examples > 0, tf.float32), model.config.moving_statistics, kind.all_reduce
    )
    scope = tf.compat.v1.variable_scope(
        tf.compat.v1.get_variable_scope(), reuse=kind.reuse, custom_getter=regularize_every_tower()
    )
    with scope, building(current):
        try:
            spec = model.spec(data.features, data.labels, ModeKeys.TRAIN)
        except (AttributeError, NotImplementedError, TypeError, ValueError) as error:
            # What TensorFlow raises where a function takes no partitioned variable.
            strategy.refused(error)
            raise
        loss = checked_loss(spec)
    if kind.reuse:
        _refuse_new_variables(trained_before, replica)
    if spec.train_op is not None:
        refuse_ignored(model.config)
        return Tower(data, loss, (), (), spec)
    if optimizer is None:
        raise UsageError(
            "there is neither an optimizer_fn nor a train_op: give the program an optimizer, "
            "Program(model_fn, input_fn, optimizer_fn), or return EstimatorSpec(mode, loss=loss, "
            "train_op=...) from model_fn"
        )
    weight = _weight(data, kind)
    # As the seed of backpropagation, in place of 1, it costs nothing.
    seed = tf.cast(weight, loss.dtype) if kind.weighted else None
    variables = tf.compat.v1.trainable_variables()
    gradients = (
        optimizer.compute_gradients(loss, var_list=variables, grad_loss=seed) if variables else ()
    )
    statistics = current.statistics
    if kind.weighted:
        statistics = [
            replace(s, value=s.value * tf.cast(weight, s.value.dtype)) for s in statistics
        ]
    keys = tf.compat.v1.GraphKeys
    updates, summaries = (
        list(tf.compat.v1.get_collection(key)) for key in (keys.UPDATE_OPS, keys.SUMMARIES)
    )
    if not kind.reuse:
        warn_of_silent_mistakes(loss, updates, [statistic.variable for statistic in statistics])
    pairs = [
        (present(g, data.examples) if kind.maybe_empty else g, variable)
        for g, variable in trained(gradients)
    ]
    return Tower(data, loss, pairs, updates, spec, statistics, summaries)


def _weight(data: ReplicaInput, kind: TowerKind) -> Tensor:
    """The number of examples. A constant where every batch has as many, so that TensorFlow folds it
    into those of the loss: for a gradient that is a variable's own value, as of `l2_loss`, it is a
    product with every weight otherwise."""
    known = None if kind.maybe_empty else known_examples((data.features, data.labels))
    return data.examples if known is None else tf.constant(known, tf.int64)


def _next_batch(before: Tower) -> ReplicaInput:
    """The next batch of the same input, read when the gradients of the previous one are
    complete."""
    with (
        tf.device(before.input.examples.device),
        tf.control_dependencies([tf.group(*[gradient for gradient, _ in before.contributions])]),
    ):
        return before.input.next()


def joined(parts: Sequence[Tower], *, weighted: bool) -> Tower:
    """Joins towers into one, in the current device scope, as if their batches were a single batch.
    weighted: of the result."""
    examples = tf.add_n([part.input.examples for part in parts])
    factor = 1.0 / tf.cast(tf.maximum(examples, 1), tf.float64)
    loss = (
        tf.add_n(
            [
                tf.cast(part.loss, tf.float64) * tf.cast(part.input.examples, tf.float64)
                for part in parts
            ]
        )
        * factor
    )
    means = summed([part.contributions for part in parts])
    if not weighted:
        means = [(scale(total, factor), variable) for total, variable in means]
    gradients, statistics = parts[0].divide(means)
    first = parts[0]
    return replace(
        first,
        input=replace(first.input, examples=examples, taken=taken_by(parts)),
        loss=loss,
        gradients=gradients,
        statistics=statistics,
    )


def taken_by(parts: Sequence[Tower]) -> Tensor | None:
    """What they read together, see `ReplicaInput.taken`; None if no parts are handed out."""
    taken = [part.input.taken for part in parts if part.input.taken is not None]
    return tf.concat(taken, 0) if taken else None


def checked_loss(spec: EstimatorSpec) -> Tensor:
    """The scalar loss of `spec`. Raises UsageError if there is none."""
    if spec.loss is None:
        raise UsageError(
            f"model_fn returned no loss in mode {spec.mode!r}; "
            "return psclust.EstimatorSpec(mode, loss=...)"
        )
    loss = tf.convert_to_tensor(spec.loss)
    if loss.shape.rank == 0:
        return loss
    if loss.shape.rank is not None and loss.shape.num_elements() != 1:
        raise UsageError(
            f"model_fn returned a loss of shape {loss.shape}; "
            "return a scalar, for example tf.reduce_mean(loss)"
        )
    return tf.reshape(loss, [])


def trained(gradients: GradientsAndVariables) -> GradientsAndVariables:
    """The pairs that have a gradient. Raises UsageError if the loss depends on no variable."""
    found = [(gradient, variable) for gradient, variable in gradients if gradient is not None]
    if not found:
        names = ", ".join(variable.op.name for _, variable in gradients) or "none"
        raise UsageError(
            "the loss that model_fn returned depends on no trainable variable "
            f"(trainable variables: {names})"
        )
    return found


def _refuse_new_variables(before: Sequence[Variable], replica: int) -> None:
    known = {variable.ref() for variable in before}
    new = [
        variable.op.name
        for variable in tf.compat.v1.trainable_variables()
        if variable.ref() not in known
    ]
    if new:
        raise UsageError(
            f"model_fn created variables of its own in tower {replica} ({', '.join(new)}) "
            "instead of sharing the first tower's. "
            "Create variables with tf.compat.v1.get_variable, or use between-graph replication"
        )


def refuse_train_op(tower: Tower, how: str) -> None:
    """Raises UsageError if the tower has a train_op, which the replication described by `how`
    cannot use."""
    if tower.spec.train_op is not None:
        raise UsageError(
            f"model_fn returned a ready train_op, and in {how} the gradients "
            "of all replicas are combined before one step is made. Change the model function to "
            "end in `return EstimatorSpec(mode, loss=loss)` without train_op, and give the "
            "optimizer to the program: `Program(model_fn, input_fn, optimizer_fn)` with "
            "`def optimizer_fn(params): return tf.compat.v1.train.AdamOptimizer(0.001)`; "
            "or run it between-graph and asynchronous, where a train_op is used as it is"
        )
