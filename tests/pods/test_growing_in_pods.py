"""Trainings in pods that psclust supervises, whose data is handed out: spare pods join, and drained
ones are left."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from kube_server import KubeServer

from beds.command import CommandBed
from beds.growing import Growing, growing
from psclust.spec.cluster import Task
from psclust.testing.wait import wait_until

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]


def grows(
    pods: CommandBed,
    tmp_path: Path,
    way: str,
    spares: int = 2,
    start: float = 300,
    up: Sequence[str] = ("up", "--kubernetes", "-f", "psclust.yaml", "-d"),
    **keys: object,
) -> Growing:
    """A detached training of handed-out data in pods; the model is on their volume."""
    kubernetes = {"image": "a", "spares": spares, "start": start, "volumes": {"data": "/mnt/data"}}
    shared = ("/mnt/data", tmp_path / "claim")
    return growing(pods, way, up=up, shared=shared, name="bed", kubernetes=kubernetes, **keys)


def log(pods: CommandBed, task: str, attempt: int) -> str:
    path = pods.run_folder().log(Task.parse(task), attempt)
    return path.read_text(encoding="utf-8", errors="replace")


@pytest.mark.long
@pytest.mark.tensorflow
def test_spare_pods_become_workers_and_the_worker_of_a_drained_one_leaves_for_another(
    kube: KubeServer, pods: CommandBed, tmp_path: Path
) -> None:
    run = grows(pods, tmp_path, "between-graph --async", ps=1)
    run.reach(10)
    said = pods.fails(2, "scale", "worker=5")
    assert "Lower the count or, for the next run, raise kubernetes.spares." in said
    assert "worker:2 joins; nobody else stops" in run.scale(3)
    assert pods.wait_for("worker:2", "running").host == "spare-0"
    run.reach(30, "worker:2")
    kube.drain("bed-worker-1")
    assert pods.wait_for("worker:1", "running", attempt=2).host == "spare-1"
    assert "worker:1 leaves at step" in log(pods, "worker:1", 1)
    wait_until(
        lambda: kube.running["bed-worker-1"].process.poll() is not None,
        what="the end of the drained pod",
    )
    assert "no spare slot is left for worker:3" in pods.fails(2, "scale", "worker=4")
    run.hurry()
    assert set(run.used()) == {2}
    assert {task: number for task, number in run.attempts().items() if number > 1} == {
        "worker:1": 2
    }
    wait_until(lambda: kube.pods() == [], what="the end of all pods")


@pytest.mark.long
@pytest.mark.tensorflow
def test_a_run_starts_without_pods_that_no_node_takes_and_their_workers_join_later(
    kube: KubeServer, pods: CommandBed, tmp_path: Path
) -> None:
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    kube.verdict = lambda pod: (
        {"phase": "Pending", "conditions": [waits]}
        if pod["metadata"]["name"] == "bed-worker-2"
        else None
    )
    jobs = {"ps": 1, "worker": {"count": 3, "min": 2}}
    run = grows(pods, tmp_path, "between-graph --async", 0, start=3, up=(), jobs=jobs)
    running = pods.start("up", "--kubernetes", "-f", "psclust.yaml")
    running.until("bed-worker-2: Pending: Unschedulable (after 3 s")
    running.until("psclust: the run starts without worker-2: its pod is Pending")
    pods.wait_for("worker:1", "running")
    run.reach(20)
    kube.verdict = lambda pod: None
    kube.judge_again("bed-worker-2")
    running.until("worker-2 is back")
    assert pods.wait_for("worker:2", "running").host == "worker-2"
    run.reach(run.step("worker:0") + 10, "worker:2")
    run.hurry()
    assert running.wait() == 0, running.output
    assert set(run.used()) == {2}
    assert kube.pods() == []


@pytest.mark.long
@pytest.mark.tensorflow
@pytest.mark.parametrize("way", ["between-graph --sync", "in-graph --async", "in-graph --sync"])
@pytest.mark.parametrize("host", ["worker-1", "ps-0"])
def test_whoever_is_drained_the_training_goes_on_where_it_was(
    kube: KubeServer, pods: CommandBed, tmp_path: Path, way: str, host: str
) -> None:
    run = grows(pods, tmp_path, way, ps=1)
    run.reach(20)
    kube.drain(f"bed-{host}")
    task = host.replace("-", ":")
    assert pods.wait_for(task, "running", attempt=2).host == "spare-0"
    run.reach(25)
    run.hurry()
    assert set(run.used()) == {2}


@pytest.mark.long
@pytest.mark.tensorflow
@pytest.mark.parametrize("host", ["worker-0", "worker-1", "ps-0"])
def test_a_training_of_a_fixed_size_saves_before_a_drained_pod_goes(
    kube: KubeServer, pods: CommandBed, tmp_path: Path, host: str
) -> None:
    run = grows(pods, tmp_path, "between-graph --async", ps=1, input="sharded")
    run.reach(20)
    kube.drain(f"bed-{host}")
    assert pods.wait_for(host.replace("-", ":"), "running", attempt=2).host == "spare-0"
    assert "SIGUSR1 asked for it" in log(pods, "worker:0", 1)
    run.hurry()
    assert set(run.used()) == {2}


@pytest.mark.long
@pytest.mark.tensorflow
def test_a_drained_pod_without_a_successor_is_left_once_the_programs_have_saved(
    kube: KubeServer, pods: CommandBed, tmp_path: Path
) -> None:
    run = grows(pods, tmp_path, "between-graph --async", spares=0, ps=1)
    run.reach(20)
    kube.drain("bed-worker-1")
    ended = pods.wait_for_end()
    assert not ended.ok
    assert "host worker-1 is to be left, with worker:1: it got SIGTERM; " in ended.text
    assert "SIGUSR1 asked for it\nthe model is in" in log(pods, "worker:0", 1)
