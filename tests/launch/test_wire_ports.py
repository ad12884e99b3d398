"""psclust's own wire in a run: at which port, and what happens where tasks cannot connect to each
other."""

from __future__ import annotations

import json
import os
from pathlib import Path

import psutil
import pytest

from beds.command import CommandBed, typed
from beds.hosts import host_bed
from beds.tiers import longer
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

PROGRAM = """
import time

import psclust
import tensorflow.compat.v1 as tf

class Ops(tf.train.SessionRunHook):
    def begin(self):
        types = [op.type for op in tf.get_default_graph().get_operations()]
        print("received:", types.count("PsclustReceive"), flush=True)

    def after_run(self, context, values):
        time.sleep(0.05)  # leaves the processors to others

def model(features):
    weights = tf.get_variable("weights", [4, 2], initializer=tf.ones_initializer())
    loss = tf.reduce_mean(tf.matmul(features, weights) ** 2)
    return psclust.EstimatorSpec("train", loss=loss, training_hooks=[Ops()])

def data():
    return tf.data.Dataset.from_tensors(tf.ones([8, 4])).repeat(20)

program = psclust.Program(model, data, lambda: tf.train.GradientDescentOptimizer(0.01))
"""
NOT_USED = "TensorFlow's wire is used, which takes more time and CPU: for psclust's own there is"


@pytest.mark.parametrize(
    ("replication", "update"),
    longer(("between-graph", "async"), ("between-graph", "sync"), ("in-graph", "sync")),
)
def test_without_a_port_for_it_the_graph_is_built_again_for_tensorflows(
    bed: CommandBed, replication: str, update: str
) -> None:
    bed.write("mine.py", PROGRAM)
    # No range.
    ps = {"count": 2, "env": {"PSCLUST_PORTS": "none"}}
    bed.write("psclust.yaml", json.dumps({"jobs": {"ps": ps, "worker": 2}}))
    said = bed.done(
        *typed(f"up -f psclust.yaml --replication {replication} --{update} mine:program")
    )
    assert f"{NOT_USED} no port on ps:" in said
    assert said.count(NOT_USED) == (1 if replication == "in-graph" else 2)
    # Of each client, once with the wire and then without.
    assert said.count("received: ") == 2 * said.count("received: 0") > 0


def test_it_keeps_to_a_range_of_ports(bed: CommandBed) -> None:
    bed.write("mine.py", PROGRAM.replace("repeat(20)", "repeat()"))
    bed.done(*typed("up -d --ports 24100-24199 --ps 1 --workers 1 mine:program"))
    wait_until(lambda: "step " in bed.log("worker:0"), what="a step")
    open_ports = {
        each.laddr.port
        for each in psutil.Process(bed.wait_for("ps:0", "running").pid).net_connections("tcp")
        if each.status == psutil.CONN_LISTEN
    }
    assert len(open_ports) == 2
    assert open_ports <= set(range(24100, 24200))
    bed.done("down", bed.name)


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="hosts with a firewall of their own need root")
def test_behind_a_firewall_that_keeps_it_out_a_cluster_trains_by_tensorflows(
    bed: CommandBed, tmp_path: Path
) -> None:
    with host_bed(tmp_path / "hosts", 2) as hosts:
        first, second = hosts.hosts
        bed.environ |= {"HOME": str(hosts.home)}
        bed.write("mine.py", PROGRAM)
        # `up` itself tries only the ports that it has chosen.
        jobs = {"ps": {"count": 1, "env": {"PSCLUST_PORTS": "2390-2399"}}, "worker": 1}
        bed.write(
            "psclust.yaml",
            json.dumps(
                {"hosts": ["h1", "h2"], "encrypt": False, "program": "mine:program", "jobs": jobs}
            ),
        )
        first.run("nft", "add table inet closed")
        first.run("nft", "add chain inet closed in { type filter hook input priority 0; }")
        first.run(
            "nft", f"add rule inet closed in ip saddr {second.address} tcp dport 2390-2399 drop"
        )
        code, said = bed.run("up")
    assert code == 0, said
    assert f"{NOT_USED} no connection from worker:0 to ps:0 at {first.address}" in said
