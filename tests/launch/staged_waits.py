"""Programs that wait where a test wants them to, while a file of that name is there."""

from __future__ import annotations

PROGRAM = """
import os, time
import numpy as np
import tensorflow as tf
import psclust

INDEX = int(os.environ.get("TASK", "0"))

def held(what):
    while os.path.exists(what):
        time.sleep(0.02)

def input_fn(mode, params, shard):
    def batches():
        while not os.path.exists("finish"):
            held(f"input-{shard.index}")
            yield np.ones([4, 2], np.float32)
    return tf.data.Dataset.from_generator(batches, output_signature=tf.TensorSpec([4, 2]))

class Hold(tf.compat.v1.train.SessionRunHook):
    def before_run(self, context):
        held(f"step-{INDEX}")

def computed(values):
    # In the graph alone: a function of Python would be seen in a stack.
    def is_there(n):
        # A pattern that is known before would be looked for once.
        pattern = tf.strings.join([f"compute-{INDEX}", tf.where(n >= 0, "*", "?")])
        return tf.size(tf.io.matching_files(pattern)) > 0
    held = tf.while_loop(is_there, lambda n: n + 1, [tf.cast(tf.reduce_sum(values), tf.int32)])
    with tf.control_dependencies(tf.nest.flatten(held)):
        return tf.identity(values)

def model_fn(features, labels, mode, params):
    w, v = (tf.compat.v1.get_variable(name, [2]) for name in "wv")
    loss = tf.reduce_sum((tf.linalg.matvec(computed(features), w + v) - 1) ** 2)
    # Of 1 MB on, variables come back while gradients leave.
    much = tf.compat.v1.get_variable("much", [int(os.environ.get("MUCH", "1"))])
    loss += tf.reduce_sum(much ** 2)
    hooks = [] if os.environ.get("UNHELD") else [Hold()]
    return psclust.EstimatorSpec(mode, loss=loss, training_hooks=hooks)

def optimizer_fn(params):
    return tf.compat.v1.train.GradientDescentOptimizer(0.001)

program = psclust.Program(model_fn, input_fn, optimizer_fn)
"""

# A ps that takes its time before it listens.
LATE_PS = """
import os, sys, time
def prepare():
    while os.path.exists("late"):
        time.sleep(0.02)
if "--job_name=ps" in sys.argv:
    prepare()
time.sleep(1000)
"""

IMPORTS = "import tensorflow\nimport time\ntime.sleep(1000)\n"

# Its cluster has a ps that psclust knows nothing of, and at that address there is none.
ABSENT_PS = """
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
cluster = tf.train.ClusterSpec({"worker": ["127.0.0.1:%d"], "ps": ["127.0.0.1:%d", "127.0.0.1:%d"]})
server = tf.train.Server(cluster, job_name="worker", task_index=0)
with tf.Session(server.target) as session:
    session.run(tf.constant(1))
"""

SLEEPER = """
import time
def nap():
    time.sleep(1000)
nap()
"""

# worker:1 ends; the others print one line when the file `go` comes, and wait on.
UNEVEN = """
import os, time
def nap(until):
    while not os.path.exists(until):
        time.sleep(0.02)
if os.environ["TASK"] != "1":
    nap("go")
    print("on", flush=True)
    nap("end")
"""

# The way of a GAN, with two synchronous optimizers in turn. One has no hook, so no token comes into
# its queue: the first step never ends.
ONE_HOOK = """
import argparse
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
parser = argparse.ArgumentParser()
for name in ("--ps_hosts", "--worker_hosts", "--job_name", "--task_index"):
    parser.add_argument(name)
flags = parser.parse_args()
ps, workers, index = flags.ps_hosts.split(","), flags.worker_hosts.split(","), int(flags.task_index)
cluster = tf.train.ClusterSpec({"ps": ps, "worker": workers})
server = tf.train.Server(cluster, job_name=flags.job_name, task_index=index)
if flags.job_name == "ps":
    server.join()
own = f"/job:worker/task:{index}"
zeros = tf.zeros_initializer()
def optimizer():
    return tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), 2, 2)
with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=own)):
    step = tf.train.get_or_create_global_step()
    g, d = (tf.get_variable(name, [], initializer=zeros) for name in "gd")
    first, second = optimizer(), optimizer()
    with tf.variable_scope("first"):
        train_g = first.minimize((g - 1.0) ** 2, var_list=[g], global_step=step)
    other_step = tf.get_variable("other_step", [], tf.int64, initializer=zeros, trainable=False)
    with tf.variable_scope("second"):
        train_d = second.minimize((d + 1.0) ** 2, var_list=[d], global_step=other_step)
hooks = [first.make_session_run_hook(index == 0), tf.train.StopAtStepHook(last_step=50)]
with tf.train.MonitoredTrainingSession(server.target, is_chief=index == 0, hooks=hooks) as s:
    while not s.should_stop():
        s.run(train_d)
        s.run(train_g)
"""
