"""A server dials a peer that does not listen yet again and again, so that calls to it do not fail
long after it does."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from itertools import pairwise
from statistics import median

import pytest

from psclust.plan.task_environment import GRPC_OPTIONS

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

WAITS = """
import sys
import tensorflow.compat.v1 as tf
server = tf.train.Server({"ps": ["127.0.0.1:0"], "worker": ["127.0.0.1:" + sys.argv[1]]}, "ps", 0)
with tf.Session(server.target) as session:
    session.run(tf.no_op())
"""


def test_a_peer_that_was_not_there_is_dialled_again_soon() -> None:
    """It hangs up at once, which to gRPC is a failed attempt, and counts."""
    env = {**os.environ, "TF_GRPC_DEFAULT_OPTIONS": GRPC_OPTIONS, "CUDA_VISIBLE_DEVICES": ""}
    with socket.create_server(("127.0.0.1", 0)) as peer:
        peer.settimeout(300)
        command = [sys.executable, "-c", WAITS, str(peer.getsockname()[1])]
        with subprocess.Popen(
            command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            times = []
            for _ in range(25):
                peer.accept()[0].close()
                times.append(time.monotonic())
            process.kill()
    # A second each by TensorFlow's own setting.
    assert median(later - earlier for earlier, later in pairwise(times)) < 0.9
