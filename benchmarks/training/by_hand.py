"""The same models as people write them by hand: `replica_device_setter`,
`MonitoredTrainingSession`, SyncReplicasOptimizer."""

from __future__ import annotations

import argparse
import time

import models
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts")
parser.add_argument("--worker_hosts")
parser.add_argument("--job_name")
parser.add_argument("--task_index", type=int)
parser.add_argument("--model")
parser.add_argument("--sync", action="store_true")
flags = parser.parse_args()
workers = flags.worker_hosts.split(",")
cluster = tf.train.ClusterSpec({"ps": flags.ps_hosts.split(","), "worker": workers})
server = tf.train.Server(cluster, job_name=flags.job_name, task_index=flags.task_index)
if flags.job_name == "ps":
    server.join()

model, chief = models.MODELS[flags.model], flags.task_index == 0
worker = f"/job:worker/task:{flags.task_index}"
with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=worker)):
    features, labels = tf.data.make_one_shot_iterator(model.dataset()).get_next()
    loss = model.loss(tf.get_variable, features, labels)
    step = tf.train.get_or_create_global_step()
    optimizer, hooks = tf.train.GradientDescentOptimizer(models.RATE), []
    if flags.sync:
        optimizer = tf.train.SyncReplicasOptimizer(optimizer, len(workers), len(workers))
        hooks.append(optimizer.make_session_run_hook(chief))
    train = optimizer.minimize(loss, global_step=step)

config = tf.ConfigProto(device_filters=["/job:ps", worker])
with tf.train.MonitoredTrainingSession(
    server.target, is_chief=chief, hooks=hooks, config=config
) as session:
    said = time.monotonic()
    while not session.should_stop():
        _, reached = session.run([train, step])
        if time.monotonic() - said > 0.5:
            said = time.monotonic()
            print("step", reached, flush=True)
