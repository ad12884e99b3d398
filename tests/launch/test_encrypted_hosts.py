"""An encrypted run on hosts: nothing of it can be read on the way, and nobody else takes part."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

import psutil
import pytest
from callers import NOBODY, heard, listening
from on_hosts import isolated
from test_who_is_heard import ENDLESS

from beds.capture import Capture
from beds.command import CommandBed, typed
from beds.hosts import BedHost, HostBed
from beds.learning import DIGITS, is_learned
from beds.scripts import CLASSIC, DIAL, SERVE, TF_CONFIG
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

MARKER = b"NOBODY READS IT!"
# Weights, gradients and what is fed are all made of the marker.
MARKED = f"""
import numpy as np
import psclust
import tensorflow.compat.v1 as tf

marker = np.tile(np.frombuffer({MARKER!r}, np.float32), 64)

def model(features):
    weights = tf.get_variable("weights", initializer=marker)
    return psclust.EstimatorSpec("train", loss=tf.reduce_sum(weights * features))

def data():
    return tf.data.Dataset.from_tensors(marker).repeat(40)

program = psclust.Program(model, data, lambda: tf.train.GradientDescentOptimizer(1e-30))
"""
MARKED_SCRIPT = (
    TF_CONFIG
    + SERVE
    + f"""
import numpy as np
marker = np.tile(np.frombuffer({MARKER!r}, np.float32), 64)
fed = tf.placeholder(tf.float32, [256])
own = f"/job:worker/task:{{task_index}}"
with tf.device(tf.train.replica_device_setter(worker_device=own, cluster=cluster)):
    weights = tf.get_variable("weights", initializer=marker)
    step = tf.train.get_or_create_global_step()
    loss = tf.reduce_sum(weights * fed)
    train = tf.train.GradientDescentOptimizer(1e-30).minimize(loss, global_step=step)
with tf.train.MonitoredTrainingSession(server.target, is_chief=task_index == 0) as session:
    for _ in range(20):
        session.run(train, {{fed: marker}})
print("trained")
"""
)


def _forwarders(host: BedHost) -> list[int]:
    found = []
    for each in host.processes():
        with suppress(psutil.Error):  # has just ended
            if "forward.forwarder" in " ".join(each.cmdline()):
                found.append(each.pid)
    return found


def _goes_on(far: CommandBed, task: str) -> None:
    said = far.log(task).count("step ")
    wait_until(lambda: far.log(task).count("step ") > said + 3, what="more steps")


@pytest.mark.long
def test_in_the_open_tasks_have_the_addresses_of_their_hosts(
    far: CommandBed, hosts: HostBed
) -> None:
    how = typed(f"--no-encrypt --ps 2 --workers 2 {DIGITS} --set data_dir={far.folder}/digits")
    said = far.done("up", "-H", hosts.names, *how)
    assert is_learned(said), said
    assert {(task.address or "").rpartition(":")[0] for task in far.status().tasks} == {
        host.address for host in hosts.hosts
    }
    assert "is used, which takes more time" not in said


PROGRAM = "marked:program"
WAYS = [
    pytest.param(f"--replication between-graph --async {PROGRAM}", marks=pytest.mark.long),
    f"--replication between-graph --sync {PROGRAM}",
    pytest.param(f"--replication in-graph --async {PROGRAM}", marks=pytest.mark.long),
    pytest.param(f"--replication in-graph --sync {PROGRAM}", marks=pytest.mark.long),
]


@isolated
@pytest.mark.parametrize("way", [*WAYS, pytest.param("script.py", marks=pytest.mark.long)])
def test_nothing_of_it_can_be_read_on_the_way(far: CommandBed, hosts: HostBed, way: str) -> None:
    far.write("marked.py", MARKED)
    far.write("script.py", MARKED_SCRIPT)
    assert hosts[0].network is not None
    links = hosts[0].network.bridge + "-"
    for encrypt in ("--encrypt", "--no-encrypt"):
        with Capture(links, MARKER) as capture:
            far.done("up", encrypt, "-H", "h1,h2", *typed(f"--ps 1 --workers 2 {way}"))
        assert capture.bytes > 20 * 256 * 4
        assert (capture.seen == 0) == (encrypt == "--encrypt")


@isolated
def test_nobody_else_takes_part(far: CommandBed, hosts: HostBed) -> None:
    far.write("mine.py", ENDLESS)
    far.done("up", "-d", "-H", "h1,h2", *typed("--ps 1 --workers 1 mine:program"))
    wait_until(lambda: "step " in far.log("worker:0"), what="a step")
    for host in hosts.hosts[:2]:
        doors = listening(host)
        assert len(doors) == 2, doors  # its agent's, and its forwarder's
        for answer in heard(doors, at=hosts[2]):
            assert answer[:2] in ("", "15")  # TLS's alert
        # Of another user on the host itself, where the task runs and where it is forwarded.
        tasks = [task.address or "" for task in far.status().tasks if task.task == "ps:0"]
        assert heard(tasks, user=NOBODY, at=host) == [""]
        assert heard(tasks, at=host)[0].startswith("0000")
    _goes_on(far, "worker:0")
    far.done("down")


@pytest.mark.long
@isolated
def test_it_goes_on_when_a_link_was_cut_and_a_forwarder_killed(
    far: CommandBed, hosts: HostBed
) -> None:
    far.write("mine.py", ENDLESS)
    how = typed("up -d -H h1,h2 --ps 1 --workers 1 mine:program")
    far.done(*how)
    wait_until(lambda: "step " in far.log("worker:0"), what="a step")
    hosts[1].cut()
    happened = far.run_folder().events
    wait_until(lambda: '"host_silent"' in happened.read_text(), what="a host that is not reached")
    hosts[1].heal()
    _goes_on(far, "worker:0")
    for host in hosts.hosts[:2]:
        (first,) = _forwarders(host)
        os.kill(first, signal.SIGKILL)
        wait_until(lambda host=host: len(_forwarders(host)) == 1, what="another forwarder")
        _goes_on(far, "worker:0")
    far.done("down")


@pytest.mark.long
def test_bare_servers_are_dialled_on_the_machine_that_called_up(
    far: CommandBed, hosts: HostBed
) -> None:
    said = far.done("up", "-d", "-H", "h1,h2", *typed("--ps 2 --workers 2"))
    target = next(line.split("'")[1] for line in said.splitlines() if "dial it" in line)
    assert target.startswith("grpc://127.0.0.1:")
    client = subprocess.run(
        [sys.executable, "-c", DIAL, target], capture_output=True, text=True, timeout=300
    )
    assert "dialled 2.0" in client.stdout, client.stderr
    far.done("down")


@pytest.mark.long
def test_a_script_runs_unchanged(far: CommandBed, hosts: HostBed) -> None:
    far.write("train.py", CLASSIC)
    said = far.done("up", "-H", "h1,h2,h3", "train.py")
    assert said.count("trained to") == 2, said


def test_a_range_of_ports_has_one_for_each_task(far: CommandBed, hosts: HostBed) -> None:
    how: Sequence[str] = typed("--encrypt --ports 24100-24102 --ps 2 --workers 2")
    said = far.fails(3, "up", "-d", "-H", "h1,h2", *how)
    assert "24100-24102 has too few ports: with `encrypt`" in said


@pytest.mark.long
def test_a_second_up_adds_a_worker_and_keeps_the_addresses(far: CommandBed, hosts: HostBed) -> None:
    far.write("mine.py", ENDLESS)
    how = "up -d -H h1,h2,h3 --ps 1 --workers {} mine:program"
    far.done(*typed(how.format(1)))
    wait_until(lambda: "step " in far.log("worker:0"), what="a step")
    before = {task.task: (task.address, task.attempt) for task in far.status().tasks}
    far.done(*typed(how.format(2)))
    wait_until(lambda: "step " in far.log("worker:1"), what="a step of the new one")
    after = {task.task: (task.address, task.attempt) for task in far.status().tasks}
    assert after["ps:0"][0] == before["ps:0"][0]
    assert after["worker:0"][0] == before["worker:0"][0]
    far.done("down")
