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
        return tf.size(tf.io.matching_files(tf.strings.join([f"compute-{INDEX}", tf.where(n >= 0, "*", "?")]))) > 0
    held = tf.while_loop(is_there, lambda n: n + 1, [tf.cast(tf.reduce_sum(values), tf.int32)])
    with tf.control_dependencies(tf.nest.flatten(held)):
        return tf.identity(values)

def model_fn(features, labels, mode, params):
    w, v = (tf.compat.v1.get_variable(name, [2]) for name in "wv")
    loss = tf.reduce_sum((tf.linalg.matvec(computed(features), w + v) - 1) ** 2)
    # Of 1 MB on, variables come back while gradients leave.
    loss += tf.reduce_sum(tf.compat.v1.get_variable("much", [int(os.environ.get("MUCH", "1"))]) ** 2)
    return psclust.EstimatorSpec(mode, loss=loss, training_hooks=[] if os.environ.get("UNHELD") else [Hold()])

program = psclust.Program(model_fn, input_fn, lambda params: tf.compat.v1.train.GradientDescentOptimizer(0.001))
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
