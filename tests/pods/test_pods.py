"""Manifests at work: a small kubelet runs every pod as processes with a network and a name of their
own."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pod_bed import Pod
from small_kubelet import kubelet

from beds.scripts import COORDINATOR, FLAGS, MODEL, SERVE, TRAIN
from psclust.pods.kube_manifest import manifest
from psclust.spec.kubernetes_checks import check_for_kubernetes
from psclust.spec.load import load

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]

# Without device filters: a session waits for every task of its cluster. Worker 1 waits for a file
# before it makes its session; all pods of the tests have one working folder.
SCRIPT = (
    FLAGS
    + SERVE
    + """
import os, time
while task_index == 1 and not os.path.exists("go"):
    time.sleep(0.1)
"""
    + MODEL
    + TRAIN.replace(", config=config", "")
)
SPECS = Path(__file__).parents[2] / "cluster_specs"


def objects(folder: Path, text: str, *, plain: bool = False) -> Sequence[dict[str, Any]]:
    path = folder / "cluster.yaml"
    path.write_text(text, encoding="utf-8")
    return manifest(load(path, default_name="x", rules=[check_for_kubernetes]), plain=plain)


def digits(*more: str) -> str:
    text = (
        (SPECS / "kubernetes.yaml")
        .read_text(encoding="utf-8")
        .replace("/model]", "/mnt/model]")
        .replace(": /model}", ": /mnt/model}")
    )
    return text.replace("args: [", "".join(["args: [", *(f"{word}, " for word in more)]))


@pytest.fixture
def claim(tmp_path: Path) -> Path:
    """The folder of a volume."""
    folder = tmp_path / "claim"
    folder.mkdir()
    return folder


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "plain", [False, pytest.param(True, marks=pytest.mark.long)], ids=["jobset", "plain"]
)
def test_the_digits_train_on_kubernetes_and_every_pod_ends(
    tmp_path: Path, claim: Path, plain: bool
) -> None:
    with kubelet(tmp_path, objects(tmp_path, digits(), plain=plain), {"model": claim}) as runs:
        runs.run_until(lambda: runs.succeeded or runs.failed, what="the end of the training")
        said = runs.output()
        assert not runs.failed, said
        assert re.search(r"evaluation: accuracy 0\.9[5-9]", said), said
        assert list(claim.glob("checkpoint*")), said
        # Servers too have learned that the work is done.
        runs.run_until(
            lambda: all(job.complete for job in runs.jobs.values()), 60, what="the end of all pods"
        )


@pytest.mark.tensorflow
@pytest.mark.long
@pytest.mark.parametrize("lost", [False, True], ids=["drained", "lost"])
def test_clients_find_a_ps_again_that_came_back_at_another_address(
    tmp_path: Path, claim: Path, lost: bool
) -> None:
    text = digits("--set", "epochs=40", "--save-seconds", "1", "--log-seconds", "1")
    with kubelet(tmp_path, objects(tmp_path, text), {"model": claim}) as runs:
        workers = ("worker:0", "worker:1")

        def lines() -> list[int]:
            return [len(re.findall(r"step \d+ loss", runs.output(worker))) for worker in workers]

        runs.run_until(lambda: min(lines()) > 0, what="the first steps")
        before = runs.pod("ps:1").address
        replaced = runs.replace("ps:1", lost=lost)
        assert replaced.address != before
        runs.run_until(lambda: replaced.ready, what="the new ps")
        known = lines()
        runs.run_until(
            lambda: all(now > then for now, then in zip(lines(), known, strict=True)),
            what="further steps of all workers",
        )
        assert "restored /mnt/model/" in runs.output("worker:0")
        assert [runs.pod(worker).restarts for worker in workers] == [0, 0]
        assert not runs.past[1:]  # the workers have kept their pods


def says_done(pod: Pod) -> bool:
    try:
        socket.create_connection((pod.address, 2223), 1).close()
    except OSError:
        return False
    return True


@pytest.mark.long
@pytest.mark.tensorflow
def test_a_script_runs_unchanged_a_late_session_finds_all_servers_and_plain_jobs_end(
    tmp_path: Path,
) -> None:
    (tmp_path / "image").mkdir()
    (tmp_path / "image" / "train.py").write_text(SCRIPT, encoding="utf-8")
    text = "name: s\njobs: {ps: 1, worker: 2}\nprogram: train.py\nkubernetes: {image: a}\n"
    with kubelet(tmp_path, objects(tmp_path, text, plain=True)) as runs:
        runs.run_until(
            lambda: runs.jobs["s-worker-0"].pods and says_done(runs.pod("worker:0")),
            120,
            what="the end of worker 0",
        )
        (tmp_path / "image" / "go").touch()
        runs.run_until(lambda: runs.succeeded or runs.failed, what="the end of all jobs")
        assert not runs.failed, runs.output()
        assert all("trained to" in runs.output(f"worker:{index}") for index in (0, 1))


@pytest.mark.tensorflow
@pytest.mark.long
def test_a_coordinator_script_drives_bare_servers_in_pods(tmp_path: Path) -> None:
    (tmp_path / "image").mkdir()
    (tmp_path / "image" / "train.py").write_text(COORDINATOR, encoding="utf-8")
    text = (
        "name: s\njobs: {ps: 1, worker: 2}\nreplication: coordinator\nprogram: train.py\n"
        "kubernetes: {image: a}\n"
    )
    with kubelet(tmp_path, objects(tmp_path, text)) as runs:
        runs.run_until(lambda: runs.succeeded or runs.failed, what="the end of the chief")
        said = runs.output("chief:0")
        assert "trained to True variable on /job:ps/replica:0/task:0" in said, runs.output()


@pytest.mark.tensorflow
@pytest.mark.long
@pytest.mark.parametrize(
    ("more", "drained", "client"),
    [("", "worker:0", "worker:0"), ("replication: in-graph\n", "worker:1", "client:0")],
    ids=["chief", "in-graph"],
)
def test_training_goes_on_when_a_worker_is_drained(
    tmp_path: Path, claim: Path, more: str, drained: str, client: str
) -> None:
    text = digits("--set", "epochs=25", "--save-seconds", "1", "--log-seconds", "1") + more
    with kubelet(tmp_path, objects(tmp_path, text), {"model": claim}) as runs:
        runs.run_until(lambda: list(claim.glob("*.index")), what="the first checkpoint")
        runs.replace(drained)
        runs.run_until(lambda: runs.succeeded or runs.failed, what="the end of the training")
        assert re.search(r"evaluation: accuracy 0\.9[5-9]", runs.output(client)), runs.output()
        assert len(runs.past) == 1


def commands(
    folder: Path, command: str, *, more: str = "", plain: bool = False
) -> Sequence[dict[str, Any]]:
    """A chief that runs a shell command, and a worker that goes on and on."""
    jobs = f"{{chief: {{run: [sh, -c, {command!r}]}}, worker: {{run: [sleep, '1000']}}}}"
    return objects(
        folder,
        f"name: c\njobs: {jobs}\ndeadlines: {{finish: 1, stop: 1}}\n"
        f"kubernetes: {{image: a}}\n{more}",
        plain=plain,
    )


def test_a_program_that_dies_gets_a_new_pod_and_is_given_up_at_last(tmp_path: Path) -> None:
    with kubelet(
        tmp_path, commands(tmp_path, "echo try; exit 7", more="restart: {max: 2}\n")
    ) as runs:
        runs.run_until(lambda: runs.failed, what="the failure")
        assert [pod.output for pod in runs.past] == ["try\n", "try\n"]


def test_wrong_arguments_are_not_tried_again(tmp_path: Path) -> None:
    with kubelet(tmp_path, commands(tmp_path, "exit 2")) as runs:
        runs.run_until(lambda: runs.failed, what="the failure")
        assert not runs.past


def test_a_job_set_has_succeeded_with_its_chief_and_the_others_are_deleted(tmp_path: Path) -> None:
    with kubelet(tmp_path, commands(tmp_path, "hostname; cat /etc/resolv.conf")) as runs:
        runs.run_until(lambda: runs.succeeded, what="success")
        assert runs.output("chief:0").splitlines()[1] == "c-chief-0-0"
        runs.delete()
        assert runs.pod("worker:0").process.returncode in (0, 143)


def test_a_program_gets_the_keys_of_its_secrets(tmp_path: Path) -> None:
    text = (
        "name: c\njobs: {chief: 1}\nprogram: [sh, -c, 'echo $TOKEN $LEVEL']\nenv: {LEVEL: '010'}\n"
        "kubernetes: {image: a, secrets: [hf]}\n"
    )
    with kubelet(tmp_path, objects(tmp_path, text), secrets={"hf": {"TOKEN": "s3cret"}}) as runs:
        runs.run_until(lambda: runs.succeeded, what="success")
        assert runs.output("chief:0").endswith("\ns3cret 010\n")


def test_what_goes_on_after_the_chief_of_plain_jobs_is_stopped(tmp_path: Path) -> None:
    with kubelet(tmp_path, commands(tmp_path, "exit 0", plain=True)) as runs:
        runs.run_until(lambda: runs.succeeded or runs.failed, what="the end of all jobs")
        assert not runs.failed, runs.output()
        assert (
            "worker:0 still runs 1 s after the others had done their work; it is stopped."
            in runs.output("worker:0")
        )


def test_a_server_is_started_again_in_its_pod_at_the_same_address(tmp_path: Path) -> None:
    with kubelet(
        tmp_path, objects(tmp_path, "name: s\njobs: {ps: 1}\nkubernetes: {image: a}\n")
    ) as runs:
        runs.run_until(
            lambda: runs.pod("ps:0").ready if runs.jobs["s-ps-0"].pods else None, what="the server"
        )
        pod = runs.pod("ps:0")
        server = pod.task()
        assert server is not None
        server.kill()
        runs.run_until(lambda: pod.restarts == 1 and pod.ready, what="the server's second attempt")
        assert runs.pod("ps:0") is pod
