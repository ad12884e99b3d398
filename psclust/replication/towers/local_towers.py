"""The towers of one between-graph worker: one on each of its devices, joined on its CPU.

They step together, so that the worker is one replica to everybody else: one gradient of each variable leaves it, summed over its towers,
and its step has the examples of them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf

from psclust.replication.device_function import Strategy
from psclust.replication.device_layout import Layout, host_of
from psclust.replication.input.end_of_data import until_all_ended
from psclust.replication.input.replica_input import ReplicaInput, build_input, new_skip
from psclust.replication.input.split_batch import split_input
from psclust.replication.model import Model, Shard
from psclust.replication.sync.all_reduce import InGraphAllReduce
from psclust.replication.towers.tower import Tower, TowerKind, build_tower, joined
from psclust.replication.update.train_op import refuse_train_op
from psclust.replication.variables.places import TOWER_SCOPE


def build_local_towers(
    model: Model,
    optimizer: Any,
    layout: Layout,
    strategy: Strategy,
    replica: int,
    kind: TowerKind,
    all_reduce: InGraphAllReduce | None,
) -> tuple[Tower, Sequence[Tower]]:
    """Builds all towers of worker number `replica` in the current graph: (one that stands for all of them, each of them). `all_reduce` sums
    over all towers of all workers. Raises UsageError where the user's functions break their contract."""
    every, first = layout.towers, replica * len(layout.devices)
    host = host_of(every.workers[first])
    shared = model.config.split_batch
    filled = kind.fill or not (shared or model.config.drop_uneven)
    with tf.device(host):
        whole, inputs = (_split if shared else _side_by_side)(model, layout, replica, fill=filled)
    towers: list[Tower] = []
    for index, data in enumerate(inputs):
        own = all_reduce.for_tower(first + index) if all_reduce else None
        with tf.name_scope(f"{TOWER_SCOPE}{index}"):
            part = replace(kind, reuse=index > 0, weighted=True, fill=filled or shared, all_reduce=own)
            towers.append(build_tower(model, optimizer, every, strategy, first + index, part, data))
        refuse_train_op(towers[-1], "a worker with several devices")
    if all_reduce:
        all_reduce.connect()
    with tf.device(host):
        total = joined(towers, weighted=kind.weighted)
        # Where others wait for this worker's moments, it goes on with nothing until they have ended as well.
        examples = total.input.examples if kind.fill or not filled else until_all_ended(total.input.examples)
    return replace(total, input=replace(whole, examples=examples), variables=towers[0].variables), towers


def _split(model: Model, layout: Layout, replica: int, *, fill: bool) -> tuple[ReplicaInput, Sequence[ReplicaInput]]:
    """The worker's shard, and its batches in parts."""
    shard, count = Shard(replica, len(layout.workers)), len(layout.devices)
    whole = build_input(model, shard, fill=fill, group=model.config.accumulate, divisor=count)
    return whole, split_input(whole, count)


def _side_by_side(model: Model, layout: Layout, replica: int, *, fill: bool) -> tuple[ReplicaInput, Sequence[ReplicaInput]]:
    """A shard for each tower, and all of them as one, for starting them."""
    count, skip = len(layout.devices), new_skip()
    shards = [Shard(replica * count + index, len(layout.towers.workers)) for index in range(count)]
    inputs = [build_input(model, shard, fill=fill, group=model.config.accumulate, skip=skip) for shard in shards]
    endless = tf.reduce_any(tf.stack([data.endless for data in inputs]))
    return replace(inputs[0], initializer=tf.group(*[data.initializer for data in inputs]), endless=endless), inputs
