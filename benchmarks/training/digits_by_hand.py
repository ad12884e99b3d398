"""The digits of psclust's examples as people train them by hand: the same input and model,
asynchronous."""

from __future__ import annotations

import argparse

import tensorflow.compat.v1 as tf

from psclust import Shard
from psclust.examples import digits

tf.disable_eager_execution()

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts")
parser.add_argument("--worker_hosts")
parser.add_argument("--job_name")
parser.add_argument("--task_index", type=int)
flags = parser.parse_args()
workers = flags.worker_hosts.split(",")
cluster = tf.train.ClusterSpec({"ps": flags.ps_hosts.split(","), "worker": workers})
server = tf.train.Server(cluster, job_name=flags.job_name, task_index=flags.task_index)
if flags.job_name == "ps":
    server.join()

params = digits.program.params
worker = f"/job:worker/task:{flags.task_index}"
with tf.device(worker):
    features, labels = tf.data.make_one_shot_iterator(
        digits.input_fn("train", params, Shard(flags.task_index, len(workers)))
    ).get_next()
with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=worker)):
    loss = digits.model_fn(features, labels, "train", params).loss
    step = tf.train.get_or_create_global_step()
    train = digits.optimizer_fn(params).minimize(loss, global_step=step)

config = tf.ConfigProto(device_filters=["/job:ps", worker])
with tf.train.MonitoredTrainingSession(
    server.target, is_chief=flags.task_index == 0, config=config
) as session:
    while not session.should_stop():
        print("step", session.run([train, step])[1], flush=True)
