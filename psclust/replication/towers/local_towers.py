"""The towers of one between-graph worker: one on each of its devices, joined on its CPU.

They step together, so to all others the worker is one replica: it sends one gradient of each
variable, summed over its towers, and its step counts the examples of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import tensorflow as tf

from psclust.replication.device_function import TOWER_SCOPE
from psclust.replication.device_layout import DeviceLayout, host_of
from psclust.replication.graph_plan import BetweenGraphPlan
from psclust.replication.input.end_of_data import until_all_ended
from psclust.replication.input.replica_input import ReplicaInput, build_input, new_skip
from psclust.replication.input.split_batch import split_input
from psclust.replication.model import Model, Shard
from psclust.replication.tf_types import Optimizer
from psclust.replication.towers.tower import Tower, build_tower, joined, refuse_train_op
from psclust.replication.towers.tower_all_reduce import InGraphAllReduce
from psclust.replication.towers.tower_kind import TowerKind
from psclust.replication.variables.places import Places


def build_local_towers(
    model: Model,
    optimizer: Optimizer,
    layout: DeviceLayout,
    strategy: Places,
    replica: int,
    plan: BetweenGraphPlan,
    all_reduce: InGraphAllReduce | None,
) -> tuple[Tower, Sequence[Tower]]:
    """Builds all towers of worker number `replica` in the current graph: (all of them as one, each
    of them). `all_reduce` sums over all towers of all workers. Raises UsageError if the user's
    functions break their contract."""
    first = replica * len(plan.towers)
    host = host_of(plan.towers[0])
    with tf.device(host):
        whole, inputs = (_split if plan.split else _side_by_side)(
            model, layout, replica, pad=plan.towers_padded
        )
    towers: list[Tower] = []
    for index, data in enumerate(inputs):
        kind = TowerKind.local(
            plan, index, all_reduce.for_tower(first + index) if all_reduce else None
        )
        with tf.name_scope(f"{TOWER_SCOPE}{index}"):
            towers.append(
                build_tower(model, optimizer, layout.towers, strategy, first + index, kind, data)
            )
        refuse_train_op(towers[-1], "a worker with several devices")
    if all_reduce:
        all_reduce.connect()
    with tf.device(host):
        total = joined(towers, weighted=plan.sync)
        # A padded worker goes on when all its towers have ended: the other workers need its
        # moments.
        examples = (
            total.input.examples
            if plan.padded or not plan.towers_padded
            else until_all_ended(total.input.examples)
        )
    return replace(
        total,
        input=replace(whole, examples=examples, taken=total.input.taken),
        variables=towers[0].variables,
    ), towers


def _split(
    model: Model, layout: DeviceLayout, replica: int, *, pad: bool
) -> tuple[ReplicaInput, Sequence[ReplicaInput]]:
    """(the worker's input, its batches split over the towers)."""
    shard, count = Shard(replica, len(layout.workers)), len(layout.devices)
    whole = build_input(model, shard, pad=pad, group=model.config.accumulate, divisor=count)
    return whole, split_input(whole, count)


def _side_by_side(
    model: Model, layout: DeviceLayout, replica: int, *, pad: bool
) -> tuple[ReplicaInput, Sequence[ReplicaInput]]:
    """(one input that starts all the others, a shard for each tower)."""
    count, skip = len(layout.devices), new_skip()
    shards = [Shard(replica * count + index, len(layout.towers.workers)) for index in range(count)]
    inputs = [
        build_input(model, shard, pad=pad, group=model.config.accumulate, skip=skip)
        for shard in shards
    ]
    endless = tf.reduce_any(tf.stack([data.endless for data in inputs]))
    return replace(
        inputs[0],
        initializer=tf.group(*[data.initializer for data in inputs]),
        endless=endless,
        upcoming=[each for data in inputs for each in data.upcoming],
    ), inputs
