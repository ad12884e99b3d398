"""`psclust scale` of a run on hosts: more workers on their free slots."""

from __future__ import annotations

import pytest

from beds.command import CommandBed, typed
from beds.host_fixtures import hosts_of_file
from beds.hosts import HostBed
from beds.learning import DIGITS
from beds.stand_in import interpreter
from psclust.rundir.status import TaskStatus
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

hosts = hosts_of_file(3)

PARTS = """
import time

import psclust
import tensorflow.compat.v1 as tf

class Pause(tf.train.SessionRunHook):
    def after_run(self, context, values):
        time.sleep(0.05)  # leaves the processors to others

def model(features):
    weight = tf.get_variable("weight", [])
    loss = tf.reduce_mean((weight * features - features) ** 2)
    return psclust.EstimatorSpec("train", loss=loss, training_hooks=[Pause()])

def data(part, params):
    return tf.data.Dataset.range(part[0], part[1]).map(lambda n: tf.cast(n, tf.float32)).batch(10)

program = psclust.Program(
    model,
    data,
    lambda: tf.train.GradientDescentOptimizer(1e-9),
    data_parts=psclust.ranges(100_000, 1_000),
    config=psclust.TrainConfig(epochs=1000),
)
"""


def elastic(far: CommandBed, listed: str, keys: str = "") -> None:
    far.write(
        "psclust.yaml",
        f"hosts: {listed}\nprogram: standing:program\ninput: handed_out\npreload: false\n"
        f"jobs: {{ps: 1, worker: {{count: 2, python: {interpreter(far)}}}}}\n{keys}",
    )
    far.done("up", "-d")
    wait_until(lambda: (far.folder / "steps").exists(), what="a step")


def there(far: CommandBed) -> dict[str, TaskStatus]:
    return {task.task: task for task in far.status().tasks}


@pytest.mark.parametrize("keys", ["", pytest.param("encrypt: false\n", marks=pytest.mark.long)])
def test_workers_join_on_free_slots_and_leave(far: CommandBed, hosts: HostBed, keys: str) -> None:
    elastic(far, "h1:2,h2:2,h3:1", keys)
    before = there(far)
    said = far.done("scale", "worker=4")
    assert "bed: worker:2, worker:3 join; nobody else stops\nbed: 1 ps and 4 workers" in said
    after = there(far)
    assert {task: after[task].pid for task in before} == {task: before[task].pid for task in before}
    assert sorted(task.host for task in after.values()) == ["h1", "h1", "h2", "h2", "h3"]
    said = far.fails(2, "scale", "worker=5")
    assert "worker=5: 5 workers and 1 ps need 6 slots; the hosts offer 5" in said
    assert "nobody else stops" in far.done("scale", "worker=1")
    assert set(there(far)) == {"ps:0", "worker:0"}
    assert "nobody else stops" in far.done("scale", "worker=3")
    assert there(far)["ps:0"].pid == before["ps:0"].pid
    far.write("finish", "")
    assert far.wait_for_end().ok


@pytest.mark.long
def test_a_training_on_hosts_goes_on_with_other_counts(far: CommandBed, hosts: HostBed) -> None:
    how = typed(f"--ps 1 --workers 2 {DIGITS} --set data_dir={far.folder}/digits")
    model = ["--model-dir", f"{far.folder}/model", "--set", "epochs=100000"]
    far.done("up", "-d", "-H", "h1,h2,h3", *how, *model)
    wait_until(lambda: "step " in far.log("worker:0"), what="a step")
    said = far.done("scale", "worker=3", "ps=2")
    assert "2 ps and 3 workers" in said
    assert "the training paused for" in said
    assert "resumed at step" in far.log("worker:0", 2)
    far.done("down")


@pytest.mark.parametrize("keys", ["", pytest.param("encrypt: false\n", marks=pytest.mark.long)])
def test_a_host_joins_with_workers_and_another_one_leaves(
    far: CommandBed, hosts: HostBed, keys: str
) -> None:
    elastic(far, "h1:2,h2:1", keys)
    before = there(far)
    said = far.done("scale", "worker=4", "-H", "+h3:2")
    after = there(far)
    assert sorted(task.host for task in after.values()) == ["h1", "h1", "h2", "h3", "h3"]
    stays = {task: after[task].pid == before[task].pid for task in before}
    # In the open, servers admit the addresses that they know from their start.
    assert set(stays.values()) == {not keys}
    assert ("nobody else stops" in said) is (not keys)
    assert "worker=5: 5 workers and 1 ps need 6 slots" in far.fails(2, "scale", "worker=5")
    assert "-H -h9: is no host of bed; it has h1, h2, h3." in far.fails(2, "scale", "-H", "-h9")
    assert "-H +h3: is a host of bed already." in far.fails(2, "scale", "-H", "+h3")
    assert "-H h4: write -H +h4 to add hosts" in far.fails(2, "scale", "-H", "h4")
    said = far.done("scale", "worker=2", "-H", "-h3")
    assert "bed: h3 left out" in said
    assert {task.host for task in there(far).values()} == {"h1", "h2"}
    wait_until(lambda: not hosts[2].programs(), what="the end of the agent on h3")
    far.write("finish", "")
    assert far.wait_for_end().ok


@pytest.mark.long
def test_a_host_that_joins_as_a_spare_changes_no_task(far: CommandBed, hosts: HostBed) -> None:
    elastic(far, "h1:2,h2:1")
    before = {task: entry.pid for task, entry in there(far).items()}
    assert "no task differs; it has 1 ps and 2 workers" in far.done("scale", "-H", "+h3:1")
    assert {task: entry.pid for task, entry in there(far).items()} == before
    assert "nobody else stops" in far.done("scale", "worker=3")
    assert there(far)["worker:2"].host == "h3"
    said = far.fails(3, "scale", "worker=4", "-H", "+nowhere:1")
    assert "nowhere" in said
    assert {task: there(far)[task].pid for task in before} == before
    far.done("down")


@pytest.mark.long
@pytest.mark.parametrize("update", ["--async", "--sync"])
def test_workers_of_a_host_that_joins_train_with_the_others(
    far: CommandBed, hosts: HostBed, update: str
) -> None:
    far.write("parts.py", PARTS)
    how = typed(f"--input handed_out {update} --workers 1 parts:program")
    far.done("up", "-d", "-H", "h1:1,h2:1", *how, "--model-dir", f"{far.folder}/model")
    wait_until(lambda: "step " in far.log("worker:0"), what="a step")
    ps = there(far)["ps:0"].pid
    said = far.done("scale", "worker=2", "-H", "+h3:1")
    assert "worker:1 joins" in said
    assert there(far)["worker:1"].host == "h3"
    wait_until(lambda: "step " in far.log("worker:1"), what="a step of the new worker")
    said = far.done("scale", "worker=1", "-H", "-h3")
    assert "worker:1 leaves" in said
    assert "worker:1 leaves at step" in far.log("worker:1")
    assert there(far)["ps:0"].pid == ps
    far.done("down")
