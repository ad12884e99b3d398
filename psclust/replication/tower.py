"""One replica of the model in a graph: input, loss, gradients and update ops, all on the replica's worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from psclust.errors import UsageError
from psclust.replication.devices import Strategy, replica_scope
from psclust.replication.inputs import ReplicaInput, build_input, refuse_python_input
from psclust.replication.layout import Layout
from psclust.replication.model import EstimatorSpec, ModeKeys, Model, Shard

GradientsAndVariables = Sequence[tuple[Any, Any]]


@dataclass(frozen=True)
class Tower:
    """loss: scalar, mean over the batch. gradients: (gradient, variable) of every trained variable; where the tower is weighted, of
    `loss * examples`; none where `spec` has a ready train_op. update_ops: what must have run before a step counts (moving statistics).
    spec: what the model function returned."""

    input: ReplicaInput
    loss: Any
    gradients: GradientsAndVariables
    update_ops: Sequence[Any]
    spec: EstimatorSpec


@dataclass(frozen=True, slots=True)
class TowerKind:
    """reuse: the variables exist already and are shared. weighted: gradients are multiplied by the number of examples. fill: see
    `build_input`. bare: the worker is a server without Python."""

    reuse: bool = False
    weighted: bool = False
    fill: bool = False
    bare: bool = False


def build_tower(model: Model, optimizer: Any, layout: Layout, strategy: Strategy, replica: int, kind: TowerKind) -> Tower:
    """Builds replica number `replica` in the current graph. Raises UsageError where the user's functions break their contract."""
    worker = layout.workers[replica]
    with tf.device(layout.client if model.input_on_client else worker):
        data = build_input(model, Shard(replica, len(layout.workers)), fill=kind.fill)
    if kind.bare and not kind.reuse and not model.input_on_client:
        refuse_python_input(tf.compat.v1.get_default_graph())
    trained_before = tf.compat.v1.trainable_variables()
    updates_before = set(tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS))
    with replica_scope(layout, worker, strategy):
        with tf.compat.v1.variable_scope(tf.compat.v1.get_variable_scope(), reuse=kind.reuse):
            spec = model.spec(data.features, data.labels, ModeKeys.TRAIN)
        loss = checked_loss(spec)
        if kind.reuse:
            _refuse_new_variables(trained_before, replica)
        if spec.train_op is not None:
            return Tower(data, loss, (), (), spec)
        if optimizer is None:
            raise UsageError(
                "there is neither an optimizer_fn nor a train_op: give the program an optimizer, Program(model_fn, input_fn, "
                "optimizer_fn), or return EstimatorSpec(mode, loss=loss, train_op=...) from model_fn"
            )
        # The weight costs nothing as the seed of backpropagation, in place of 1.
        seed = tf.cast(data.examples, loss.dtype) if kind.weighted else None
        variables = tf.compat.v1.trainable_variables()
        gradients = optimizer.compute_gradients(loss, var_list=variables, grad_loss=seed) if variables else ()
    updates = [op for op in tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS) if op not in updates_before]
    return Tower(data, loss, trained(gradients), updates, spec)


def checked_loss(spec: EstimatorSpec) -> Any:
    """The scalar loss of what a model function returned; raises UsageError where there is none."""
    if spec.loss is None:
        raise UsageError(f"model_fn returned no loss in mode {spec.mode!r}; return psclust.EstimatorSpec(mode, loss=...)")
    loss = tf.convert_to_tensor(spec.loss)
    if loss.shape.rank == 0:
        return loss
    if loss.shape.rank is not None and loss.shape.num_elements() != 1:
        raise UsageError(f"model_fn returned a loss of shape {loss.shape}; return a scalar, for example tf.reduce_mean(loss)")
    return tf.reshape(loss, [])


def trained(gradients: GradientsAndVariables) -> GradientsAndVariables:
    """The pairs that have a gradient; raises UsageError where the loss depends on no variable."""
    found = [(gradient, variable) for gradient, variable in gradients if gradient is not None]
    if not found:
        names = ", ".join(variable.op.name for _, variable in gradients) or "none"
        raise UsageError(f"the loss that model_fn returned depends on no trainable variable (trainable variables: {names})")
    return found


def _refuse_new_variables(before: Sequence[Any], replica: int) -> None:
    known = {variable.ref() for variable in before}
    new = [variable.op.name for variable in tf.compat.v1.trainable_variables() if variable.ref() not in known]
    if new:
        raise UsageError(
            f"model_fn created variables of its own in tower {replica} ({', '.join(new)}) instead of sharing the first tower's. Create "
            "variables with tf.compat.v1.get_variable, or use between-graph replication"
        )
