"""Scripts that lose a ps or a worker while they train, under each value of `on_ps_failure` and
`on_worker_failure`: who starts again, and that the training goes on from its checkpoint."""

from __future__ import annotations

import re

import pytest

from beds.command import CommandBed, Running, typed
from beds.hosts import HostBed
from beds.scripts import FLAGS, MODEL, SERVE
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

# Trains until the file `finish` appears, and saves after every few steps.
COORDINATOR = """
import os
import tensorflow as tf
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    w = tf.Variable(tf.zeros([10]))
    step = tf.Variable(0, dtype=tf.int64)
manager = tf.train.CheckpointManager(tf.train.Checkpoint(w=w, step=step), "model", 2)
manager.restore_or_initialize()
print("begins at step", int(step), flush=True)
@tf.function
def train():
    def replica():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((w - 1.0) ** 2)
        w.assign_sub(0.05 * tape.gradient(loss, w))
        step.assign_add(1)
    strategy.run(replica)
while not os.path.exists("finish"):
    for _ in range(5):
        coordinator.schedule(train)
    coordinator.join()
    manager.save()
    print("step", int(step), flush=True)
print("trained", float(tf.reduce_sum((w - 1.0) ** 2)) < 1.0)
"""

SESSION = (
    FLAGS
    + SERVE
    + MODEL.replace(
        "train = tf.train.GradientDescentOptimizer(0.1)",
        """
optimizer = tf.train.GradientDescentOptimizer(0.1)
hooks = []
if SYNC:
    workers = len(cluster.job_tasks("worker"))
    optimizer = tf.train.SyncReplicasOptimizer(optimizer, workers, workers)
    hooks.append(optimizer.make_session_run_hook(task_index == 0))
train = optimizer""".replace("\n", "\n    "),
    )
    + """
config = tf.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{task_index}"])
with tf.train.MonitoredTrainingSession(
    server.target, is_chief=task_index == 0, hooks=hooks, config=config,
    checkpoint_dir="model", save_checkpoint_steps=10, save_checkpoint_secs=None,
) as s:
    at = s.run_step_fn(lambda step_context: step_context.session.run(step))
    print("begins at step", at, flush=True)
    while not s.should_stop():
        print("step", s.run([step, train])[0], flush=True)
"""
)


def begun_at(bed: CommandBed, task: str, attempt: int) -> int:
    """The step at which an attempt has begun."""
    found = wait_until(
        lambda: of_live_run(bed, re.findall(r"begins at step (\d+)", bed.log(task, attempt))),
        what=f"the beginning of {task}, attempt {attempt}",
    )
    return int(found[0])


def of_live_run(bed: CommandBed, found: list[str]) -> list[str]:
    """`found`, if the run has not ended."""
    assert not bed.status().ended, bed.status().text
    return found


def steps(bed: CommandBed, task: str, attempt: int = 1, more_than: int = 0) -> int:
    """The last step of an attempt, once it is beyond `more_than`."""

    def last() -> int:
        found = of_live_run(bed, re.findall(r"^step (\d+)$", bed.log(task, attempt), re.MULTILINE))
        return int(found[-1]) if found and int(found[-1]) > more_than else 0

    return wait_until(last, what=f"steps of {task}, attempt {attempt}")


def coordinated(bed: CommandBed, *keys: str) -> Running:
    """A coordinator that trains on a ps and two workers."""
    bed.write("train.py", COORDINATOR)
    bed.write(
        "psclust.yaml",
        "\n".join(
            (
                "jobs: {chief: 1, ps: 1, worker: 2}",
                "program: train.py",
                "replication: coordinator",
                "restart: {backoff: 0.1}",
                *keys,
            )
        ),
    )
    up = bed.start("up")
    steps(bed, "chief:0", more_than=20)
    return up


def finish(bed: CommandBed, up: Running) -> dict[str, int]:
    """The attempts of all tasks, after the run has ended well."""
    bed.write("finish", "")
    assert up.wait() == 0, up.output
    assert "trained True" in up.output, up.output
    return {task.task: task.attempt for task in bed.status().tasks}


def test_a_coordinator_goes_on_when_a_worker_dies_twice_and_comes_back(bed: CommandBed) -> None:
    up = coordinated(bed)
    address = bed.wait_for("worker:1", "running").address
    for attempt in (1, 2):
        bed.signal("worker:1", attempt=attempt)
        assert bed.wait_for("worker:1", "running", attempt=attempt + 1).address == address
        at = steps(bed, "chief:0")
        steps(bed, "chief:0", more_than=at + 10)
    assert finish(bed, up) == {"chief:0": 1, "ps:0": 1, "worker:0": 1, "worker:1": 3}


@pytest.mark.long
def test_a_coordinator_that_loses_its_ps_fails_and_comes_back_from_its_checkpoint(
    bed: CommandBed,
) -> None:
    up = coordinated(bed)
    bed.signal("ps:0")
    assert begun_at(bed, "chief:0", 2) > 0
    steps(bed, "chief:0", 2)
    assert finish(bed, up) == {"chief:0": 2, "ps:0": 2, "worker:0": 1, "worker:1": 1}


@pytest.mark.long
def test_with_restart_all_a_coordinator_starts_again_with_all_servers(bed: CommandBed) -> None:
    up = coordinated(bed, "on_ps_failure: restart-all")
    bed.signal("ps:0")
    assert begun_at(bed, "chief:0", 2) > 0
    steps(bed, "chief:0", 2)
    assert finish(bed, up) == dict.fromkeys(["chief:0", "ps:0", "worker:0", "worker:1"], 2)
    assert re.search(
        r"ps:0 was killed by SIGKILL .*; all tasks start again \(on_ps_failure: restart-all\)",
        up.output,
    ), up.output
    counted = {task.task: task.restarts for task in bed.status().tasks}
    assert counted == {"chief:0": 0, "ps:0": 1, "worker:0": 0, "worker:1": 0}


def test_with_fail_the_death_of_a_ps_is_the_first_cause(bed: CommandBed) -> None:
    up = coordinated(bed, "on_ps_failure: fail")
    bed.signal("ps:0")
    assert up.wait() == 1, up.output
    status = bed.status()
    assert (status.cause, {task.attempt for task in status.tasks}) == ("ps:0", {1})
    assert (status.text or "").endswith("; on_ps_failure: fail")


@pytest.mark.long
@pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
def test_a_session_of_tensorflow_1_starts_again_from_its_checkpoint(
    bed: CommandBed, sync: bool
) -> None:
    bed.write("train.py", f"SYNC = {sync}\n{SESSION}")
    bed.write(
        "psclust.yaml",
        "jobs: {ps: 2, worker: 2}\nprogram: train.py\non_ps_failure: restart-all\n",
    )
    up = bed.start("up")
    saved = steps(bed, "worker:0", more_than=40)
    bed.signal("ps:0")  # with the global step and the tokens
    assert begun_at(bed, "worker:0", 2) >= saved - 10
    for task in ("worker:0", "worker:1"):
        steps(bed, task, 2, more_than=saved)
    assert {task.attempt for task in bed.status().tasks} == {2}
    bed.done("down")
    up.wait()


def test_on_hosts_too_all_tasks_start_again(far: CommandBed, hosts: HostBed) -> None:
    far.write("train.py", "import time\nprint('here', flush=True)\ntime.sleep(600)\n")
    far.write(
        "psclust.yaml",
        "hosts: h1:1, h2:1, h3:1\njobs: {worker: 3}\nprogram: train.py\npreload: false\n"
        "on_worker_failure: restart-all\ndeadlines: {stop: 2}\n",
    )
    up = far.start("up")
    up.until("| here", 3)
    far.done(*typed("inject kill --yes worker:1"))
    up.until("| here", 6)
    assert {task.task: (task.attempt, task.restarts) for task in far.status().tasks} == {
        "worker:0": (2, 0),
        "worker:1": (2, 1),
        "worker:2": (2, 0),
    }
    far.done("down")
    up.wait()
