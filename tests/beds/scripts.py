"""Scripts as people have them, and the parts that they are made of."""

from __future__ import annotations

# The classic flags; what they say is in `job_name`, `task_index` and `cluster`.
FLAGS = """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--ps_hosts")
p.add_argument("--worker_hosts")
p.add_argument("--job_name")
p.add_argument("--task_index", type=int)
a = p.parse_args()
job_name, task_index = a.job_name, a.task_index
cluster = {"ps": a.ps_hosts.split(","), "worker": a.worker_hosts.split(",")}
"""

TF_CONFIG = """
import json, os
told = json.loads(os.environ["TF_CONFIG"])
job_name, task_index = told["task"]["type"], told["task"]["index"]
cluster = told["cluster"]
"""

SERVE = """
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
cluster = tf.train.ClusterSpec(cluster)
server = tf.train.Server(cluster, job_name=job_name, task_index=task_index)
if job_name == "ps":
    server.join()
"""

MODEL = """
own = f"/job:worker/task:{task_index}"
with tf.device(tf.train.replica_device_setter(worker_device=own, cluster=cluster)):
    w = tf.get_variable("w", [10], initializer=tf.zeros_initializer())
    step = tf.train.get_or_create_global_step()
    loss = tf.reduce_sum((w - 1.0) ** 2)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
"""

TRAIN = """
config = tf.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{task_index}"])
stop = tf.train.StopAtStepHook(200)
with tf.train.MonitoredTrainingSession(
    server.target, is_chief=task_index == 0, hooks=[stop], config=config
) as s:
    while not s.should_stop():
        l, _ = s.run([loss, train])
print("trained to", l)
"""

CLASSIC = (
    FLAGS
    + SERVE
    + MODEL
    + """
from tensorflow.python.training.session_manager import SessionManager
managers = SessionManager(recovery_wait_secs=30), SessionManager()
print("recovery wait", *(manager._recovery_wait_secs for manager in managers))
"""
    + TRAIN
)
TOLD_BY_TF_CONFIG = TF_CONFIG + SERVE + MODEL + TRAIN

COORDINATOR = """
import json, os
import tensorflow as tf
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    w = tf.Variable(tf.zeros([10]))
@tf.function
def step():
    def replica():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((w - 1.0) ** 2)
        w.assign_sub(0.05 * tape.gradient(loss, w))
    strategy.run(replica)
for _ in range(100):
    coordinator.schedule(step)
coordinator.join()
# From 10. A slow worker may add an old gradient at the end.
close = float(tf.reduce_sum((w - 1.0) ** 2)) < 1.0
print("task", resolver.task_type, "trained to", close, "variable on", w.device)
"""

# The same, which starts the servers of the ps and the workers itself.
OWN_SERVERS = COORDINATOR.replace(
    "strategy =",
    """
if resolver.task_type in ("worker", "ps"):
    job, index = resolver.task_type, resolver.task_id
    server = tf.distribute.Server(resolver.cluster_spec(), job, index, protocol="grpc")
    server.join()
strategy =""",
    1,
)

# A client that is no task of the cluster, given the target to dial.
DIAL = """
import sys
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
with tf.device("/job:ps/task:1"):
    v = tf.get_variable("v", [], initializer=tf.ones_initializer())
with tf.device("/job:worker/task:1"):
    double = v * 2
with tf.Session(sys.argv[1]) as s:
    s.run(tf.global_variables_initializer())
    print("dialled", s.run(double))
"""
