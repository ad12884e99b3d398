"""The threads in which TensorFlow makes the runs of a session, kept by psclust's kernels: seen from
the process of a server."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

# `blocked(n)`: the threads of this process while n runs wait, each for a value, at the same time.
SERVER = """
import os, threading
import tensorflow.compat.v1 as tf
from psclust.runtime.kernel_library import python_ops
from psclust.testing.wait import wait_until
python_ops()
tf.disable_eager_execution()
server = tf.train.Server.create_local_server()
queue = tf.FIFOQueue(-1, [tf.int64], [[]], shared_name="values")
waiting = tf.get_variable("waiting", [], tf.int64, initializer=tf.zeros_initializer())
counted = waiting.assign_add(1)
with tf.control_dependencies([counted]):
    wait = queue.dequeue()
reset, give = waiting.initializer, queue.enqueue_many(tf.placeholder(tf.int64, [None], "given"))
session = tf.Session(server.target)
session.run(reset)

def threads():
    return set(os.listdir("/proc/self/task"))

def blocked(runs):
    session.run(reset)
    own = [threading.Thread(target=session.run, args=(wait,)) for _ in range(runs)]
    for thread in own:
        thread.start()
    wait_until(lambda: session.run(waiting) == runs, what="the runs")
    found = threads() - {str(thread.native_id) for thread in own}
    session.run(give, {"given:0": [1] * runs})
    for thread in own:
        thread.join()
    return found

blocked(3)
"""


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SERVER + code],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_runs_take_the_threads_of_those_before() -> None:
    # A thread may still be busy with the end of its run when the next begins.
    said = run(
        "seen = [blocked(2) for _ in range(30)]\nprint(len(set.union(*seen)) "
        "- len(set.intersection(*seen)))\n"
    )
    assert int(said) <= 20  # one for each run: 60


FEW = """
before = len(threads())
print(len(blocked(40)) >= before + 30)
wait_until(lambda: len(threads()) <= before + 8, what="the end of threads")
"""


def test_as_many_runs_as_there_are_wait_at_once_and_few_threads_stay() -> None:
    assert run(FEW) == "True\n"
