"""Scripts with addresses written in: psclust holds none of their ports, so each is taken by one
server only, as without psclust."""

from __future__ import annotations

import socket

import pytest

from beds.command import CommandBed
from beds.free_ports import free_ports
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

ALONE = """
import os, time
import tensorflow.compat.v1 as tf
server = tf.train.Server({"worker": ["localhost:PORT"]}, job_name="worker", task_index=0)
print("serving at", server.target, flush=True)
while not os.path.exists("enough"):
    time.sleep(0.1)
"""

TRAINING = """
import argparse, os, time
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
p = argparse.ArgumentParser()
p.add_argument("--job_name")
p.add_argument("--task_index", type=int)
p.add_argument("--tag", type=float)
a = p.parse_args()
cluster = tf.train.ClusterSpec({"ps": ["localhost:PORT0"], "worker": ["localhost:PORT1"]})
server = tf.train.Server(cluster, job_name=a.job_name, task_index=a.task_index)
if a.job_name == "ps":
    server.join()
with tf.device("/job:ps/task:0"):
    step = tf.train.get_or_create_global_step()
    v = tf.get_variable("v", [], initializer=tf.constant_initializer(a.tag))
    bump = step.assign_add(1)
with tf.train.MonitoredTrainingSession(server.target, is_chief=True) as s:
    while not os.path.exists("enough"):
        if s.run(bump) == 20:
            print("on its way", flush=True)
        time.sleep(0.02)
    print("tag", a.tag, "v", s.run(v), flush=True)
"""


def test_the_second_of_two_tasks_that_take_one_address_fails(bed: CommandBed) -> None:
    port = free_ports(1)
    bed.write("same.py", ALONE.replace("PORT", str(port)))
    said = bed.fails(1, "up", "--ps", "0", "--workers", "2", "same.py")
    assert said.count(f"serving at grpc://localhost:{port}") == 1
    assert "Could not start gRPC server" in said


@pytest.mark.long
def test_a_second_run_with_the_same_written_addresses_fails_and_leaves_the_first_alone(
    bed: CommandBed,
) -> None:
    port = free_ports(2)
    bed.write("train.py", TRAINING.replace("PORT0", str(port)).replace("PORT1", str(port + 1)))
    words = ("--ps", "1", "--workers", "1", "train.py")
    first = bed.start("up", "--name", "first", *words, "--tag", "1")
    wait_until(
        lambda: "on its way" in first.output or first.process.poll() is not None,
        what="steps of the first run",
    )
    bed.fails(1, "up", "--name", "second", *words, "--tag", "2")
    bed.write("enough", "")
    assert first.wait() == 0, first.output
    assert "tag 1.0 v 1.0" in first.output


def test_a_script_that_psclust_gave_its_addresses_gets_them_beside_the_reservation(
    bed: CommandBed,
) -> None:
    port = free_ports(2)
    bed.write("train.py", TRAINING.replace("PORT0", str(port)).replace("PORT1", str(port + 1)))
    addresses = (
        f"jobs:\n  ps: {{addresses: ['localhost:{port}']}}\n"
        f"  worker: {{addresses: ['localhost:{port + 1}']}}\n"
    )
    bed.write("psclust.yaml", f"{addresses}program: train.py\nargs: [--tag, '3']\n")
    bed.write("enough", "")
    assert "tag 3.0 v 3.0" in bed.done("up")
    socket.create_server(("127.0.0.1", port)).close()
