"""Scripts as people have them, without device filters: a session waits for every task of its
cluster. Worker 1 waits for the file `go` before it makes its session."""

from __future__ import annotations

_TRAIN = """
server = tf.train.Server(cluster, job_name=job, task_index=index)
if job == "ps":
    server.join()
# All pods of the tests have one working folder.
while index == 1 and not os.path.exists("go"):
    time.sleep(0.1)
own = f"/job:worker/task:{index}"
with tf.device(tf.train.replica_device_setter(worker_device=own, cluster=cluster)):
    w = tf.get_variable("w", [10], initializer=tf.zeros_initializer())
    step = tf.train.get_or_create_global_step()
    loss = tf.reduce_sum((w - 1.0) ** 2)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
hooks = [tf.train.StopAtStepHook(200)]
with tf.train.MonitoredTrainingSession(
    server.target, is_chief=index == 0, hooks=hooks
) as session:
    while not session.should_stop():
        session.run(train)
print("trained by", job, index)
"""

FLAGS = f"""
import argparse, os, time
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
p = argparse.ArgumentParser()
for name in ("ps_hosts", "worker_hosts", "job_name", "task_index"):
    p.add_argument("--" + name)
a = p.parse_args()
job, index = a.job_name, int(a.task_index)
cluster = tf.train.ClusterSpec({{"ps": a.ps_hosts.split(","), "worker": a.worker_hosts.split(",")}})
{_TRAIN}
"""

TF_CONFIG = f"""
import json, os, time
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
found = json.loads(os.environ["TF_CONFIG"])
job, index = found["task"]["type"], found["task"]["index"]
cluster = tf.train.ClusterSpec(found["cluster"])
{_TRAIN}
"""

COORDINATOR = """
import tensorflow as tf
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    count = tf.Variable(0.0)
step = tf.function(lambda: strategy.run(lambda: count.assign_add(1.0)))
for _ in range(100):
    coordinator.schedule(step)
coordinator.join()
print("counted to", float(count), "on", count.device)
"""
