"""The skewed model by hand, tuned for the wire: shards of 8 MB, balanced over the ps by bytes, each
pulled, computed and pushed on its own, which only a model can do whose parts do not depend on each
other. With `--bfloat16`, cast at both ends."""

from __future__ import annotations

import argparse
import time

import models
import tensorflow.compat.v1 as tf
from model_sizes import SKEWED

tf.disable_eager_execution()
SHARD_BYTES = 8_000_000

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts")
parser.add_argument("--worker_hosts")
parser.add_argument("--job_name")
parser.add_argument("--task_index", type=int)
parser.add_argument("--bfloat16", action="store_true")
flags = parser.parse_args()
hosts, workers = flags.ps_hosts.split(","), flags.worker_hosts.split(",")
cluster = tf.train.ClusterSpec({"ps": hosts, "worker": workers})
server = tf.train.Server(cluster, job_name=flags.job_name, task_index=flags.task_index)
if flags.job_name == "ps":
    server.join()

worker, loads, updates = f"/job:worker/task:{flags.task_index}", [0] * len(hosts), []
shards = []
for name, (rows, columns) in SKEWED.items():
    most = SHARD_BYTES // (columns * 4)
    shards += [
        (f"{name}_{start}", min(most, rows - start), columns) for start in range(0, rows, most)
    ]
wire = tf.bfloat16 if flags.bfloat16 else tf.float32
for name, rows, columns in sorted(shards, key=lambda shard: -shard[1]):
    ps = f"/job:ps/task:{loads.index(min(loads))}"
    loads[loads.index(min(loads))] += rows * columns
    with tf.device(ps):
        variable = tf.get_variable(name, [rows, columns])
        value = tf.cast(variable.read_value(), wire)
    with tf.device(worker):
        value = tf.cast(value, tf.float32)
        gradient = tf.cast(value * 1.0001, wire)
    with tf.device(ps):
        updates.append(
            variable.assign_sub(tf.cast(gradient, tf.float32) * models.RATE, read_value=False)
        )
with tf.device("/job:ps/task:0"):
    step = tf.train.get_or_create_global_step()
    with tf.control_dependencies(updates):
        train = step.assign_add(1)

config = tf.ConfigProto(device_filters=["/job:ps", worker])
with tf.train.MonitoredTrainingSession(
    server.target, is_chief=flags.task_index == 0, config=config
) as session:
    said = 0.0
    while not session.should_stop():
        reached = session.run(train)
        if time.monotonic() - said > 0.5:
            said = time.monotonic()
            print("step", reached, flush=True)
