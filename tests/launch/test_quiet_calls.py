"""A call that is quiet for long, and a peer that is gone: no gRPC ping may end the one, and the
kernel must notice the other.

A TensorFlow server accepts one ping every five minutes during a quiet call, and closes the
connection at the third that comes sooner. To see six quiet minutes rather than two seconds:
QUIET_S=360 pytest tests/launch/test_quiet_calls.py
"""

from __future__ import annotations

import os
import re

import pytest

from beds.command import CommandBed, typed
from psclust.testing.wait import PATIENCE_S

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

QUIET_S = float(os.environ.get("QUIET_S", "2"))

# Waits for an element that comes after QUIET_S: in-graph through the master of a bare worker, else
# through its own server's.
WAITS = """
import json, os, sys, threading, time
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
told = json.loads(os.environ["TF_CONFIG"])
cluster = tf.train.ClusterSpec(told["cluster"])
job, index = told["task"]["type"], told["task"]["index"]
if job == "chief":
    master = "grpc://" + cluster.job_tasks("worker")[0]
else:
    server = tf.train.Server(cluster, job_name=job, task_index=index)
    if job == "ps":
        server.join()
    master = server.target
with tf.device("/job:ps/task:0"):
    queue = tf.queue.FIFOQueue(1, tf.int32)
    put, get = queue.enqueue(7), queue.dequeue()
config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:0"])
with tf.Session(master, config=config) as session:
    begun = time.time()
    threading.Timer(float(sys.argv[1]), lambda: session.run(put)).start()
    print("got", session.run(get), "after", round(time.time() - begun), "s")
"""


@pytest.mark.long
@pytest.mark.parametrize(
    "replication",
    ["--replication coordinator", ""],
    ids=["in-graph", "between-graph"],
)
def test_a_call_may_be_quiet_for_as_long_as_it_likes(bed: CommandBed, replication: str) -> None:
    bed.write("waits.py", WAITS)
    words = typed(f"up --ps 1 --workers 1 {replication} waits.py {QUIET_S}")
    said = bed.done(*words, deadline_s=PATIENCE_S + QUIET_S)
    quiet = re.search(r"got 7 after (\d+) s", said)
    assert quiet, said
    assert int(quiet[1]) >= round(QUIET_S)
