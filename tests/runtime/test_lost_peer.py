"""A machine that no packet reaches any more: the kernel ends the connections to it, and a session
that waits for it fails.

Only a session whose master is in its own process can fail: TensorFlow dials a remote master again
and again (in-graph), and it is the supervisor that ends it, as it ends every task when a host is
lost.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import ENVIRONMENT, SERVER, command, root
from test_server_shim import shim  # noqa: F401 - a fixture

from beds.namespaces import Network
from psclust.testing.wait import wait_until

pytestmark = [
    pytest.mark.process,
    pytest.mark.tensorflow,
    pytest.mark.skipif(
        os.geteuid() != 0, reason="a network that can be cut is a namespace, which needs root"
    ),
]

PORT, TIMEOUT_S = 2222, 6

WAITS = """
import json, os, threading
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
cluster = json.loads(os.environ["PSCLUST_CLUSTER"])
master = tf.train.Server(cluster, "worker", 0).target
with tf.device("/job:ps/task:0"):
    get = tf.queue.FIFOQueue(1, tf.int32).dequeue()
config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:0"])
with tf.Session(master, config=config) as session:
    # By then its request is at the server, most likely, and the connection quiet; the end must be
    # the same if it is not.
    threading.Timer(1, print, ["waits"], {"flush": True}).start()
    try:
        session.run(get)
    except tf.errors.UnavailableError as error:
        print("noticed", error.message.splitlines()[0], flush=True)
"""


@pytest.fixture
def network() -> Iterator[Network]:
    with Network(["far", "near"]) as network:
        yield network


def test_a_session_that_waits_for_a_machine_that_is_cut_off_fails(
    shim: Path,  # noqa: F811
    network: Network,
    tmp_path: Path,
) -> None:
    cluster = {
        "ps": [f"{network.address('far')}:{PORT}"],
        "worker": [f"{network.address('near')}:{PORT}"],
    }
    env = {
        **os.environ,
        **ENVIRONMENT,
        "TF_GRPC_DEFAULT_OPTIONS": "grpc.enable_http_proxy=0",
        "PSCLUST_CLUSTER": json.dumps(cluster),
        "PSCLUST_PEER_TIMEOUT": str(TIMEOUT_S),
        "LD_PRELOAD": str(shim),
        "PYTHONPATH": root(),
    }
    log = tmp_path / "log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [*network.command("far"), *command(SERVER, cluster, "ps", 0)],
            env=env,
            stderr=subprocess.DEVNULL,
        ) as server,
        subprocess.Popen(
            [*network.command("near"), sys.executable, "-c", WAITS],
            env=env,
            stdout=output,
            stderr=subprocess.DEVNULL,
        ) as client,
    ):
        try:
            wait_until(lambda: "waits" in log.read_text(), what="a session that waits")
            network.cut("far")
            wait_until(lambda: "noticed" in log.read_text(), what="an end of the session")
        finally:
            server.kill()
            client.kill()
