"""The `train.py` that a documented command is about: each reads its role in the way of the kind of
script that its page speaks of."""

from __future__ import annotations

_TRAIN = """
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
spec = tf.train.ClusterSpec(cluster)
server = tf.train.Server(spec, job_name=job, task_index=index)
if job == "ps":
    server.join()
own = f"/job:{job}/task:{index}"
with tf.device(tf.train.replica_device_setter(worker_device=own, cluster=spec)):
    w = tf.get_variable("w", [10], initializer=tf.zeros_initializer())
    step = tf.train.get_or_create_global_step()
    loss = tf.reduce_sum((w - 1.0) ** 2)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
config = tf.ConfigProto(device_filters=["/job:ps", own])
hooks = [tf.train.StopAtStepHook(50)]
with tf.train.MonitoredTrainingSession(
    server.target, is_chief=index == 0, hooks=hooks, config=config
) as session:
    while not session.should_stop():
        session.run(train)
print("trained")
"""

# --ps_hosts and the other three, and whatever else a page gives to it.
FLAGS = (
    """
import argparse
parser = argparse.ArgumentParser()
for name in ("--ps_hosts", "--worker_hosts", "--job_name", "--lr", "--data", "--model-dir"):
    parser.add_argument(name)
parser.add_argument("--task_index", type=int)
given = parser.parse_args()
cluster = {"ps": given.ps_hosts.split(","), "worker": given.worker_hosts.split(",")}
job, index = given.job_name, given.task_index
"""
    + _TRAIN
)

# Options of its own, and the cluster in a variable of its own.
OWN_FLAGS = (
    """
import argparse, json, os
parser = argparse.ArgumentParser()
parser.add_argument("--cluster")
parser.add_argument("--task", type=int)
given = parser.parse_args()
cluster = json.loads(os.environ["CLUSTER_SPEC"])
hosts = {name: ",".join(listed) for name, listed in cluster.items()}
assert given.cluster == "ps|{ps},worker|{worker}".format(**hosts), given
job, index = os.environ["PSCLUST_TASK"].split(":")[0], given.task
"""
    + _TRAIN
)

_COORDINATE = """
import os
import tensorflow as tf
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
{serve}
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    w = tf.Variable(tf.zeros([10]))

@tf.function
def step():
    strategy.run(lambda: w.assign_sub(0.1 * (w - 1.0)))

for _ in range(20):
    coordinator.schedule(step)
coordinator.join()
print("trained")
"""

# Its ps and workers are servers that psclust starts.
COORDINATOR = _COORDINATE.format(serve="")

# It starts them itself.
OWN_SERVERS = _COORDINATE.format(
    serve="""
if resolver.task_type in ("worker", "ps"):
    job, index = resolver.task_type, resolver.task_id
    server = tf.distribute.Server(resolver.cluster_spec(), job, index, protocol="grpc")
    server.join()
"""
)


def script_for(command: str) -> str:
    """The script that `command` speaks of."""
    if "--replication coordinator" in command:
        return COORDINATOR
    if "--job chief" in command:
        return OWN_SERVERS
    return OWN_FLAGS if "CLUSTER_SPEC" in command else FLAGS
