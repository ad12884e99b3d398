"""`psclust up --kubernetes`: a small kubelet runs the pods that psclust creates, which it reaches
through the API server alone."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import psutil
import pytest
import yaml
from kube_server import KubeServer

from beds.command import CommandBed, Running
from beds.learning import DIGITS, is_learned
from psclust.errors import HostError
from psclust.pods.agent_pods import pod_objects
from psclust.reach.kubernetes.kube_api import KubeApi, KubeLocation
from psclust.reach.kubernetes.kube_hosts import KubeHosts
from psclust.reach.run_to_end import run
from psclust.spec.cluster import Host
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.host_keys import Kubernetes
from psclust.testing.wait import wait_until

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]

RBAC = Path(__file__).parents[2] / "deploy" / "kubernetes-rbac.yaml"
UP = ("up", "--kubernetes", "--image", "registry.example.com/me/train:1", "--ps", "0")
PLAIN = ("--no-preload", "--role-by", "none")
SHOW = """
import os, socket
print(os.environ["PSCLUST_TASK"], "in", socket.gethostname(), open("data.txt").read(), flush=True)
"""
PATIENT = "import time; print('up', flush=True); time.sleep(1000)\n"


def start(pods: CommandBed, workers: int, *options: str) -> Running:
    """So many workers that go on and on."""
    pods.write("train.py", PATIENT)
    return pods.start(*UP, *options, "--workers", str(workers), *PLAIN, "train.py")


def allowed() -> set[tuple[str, str]]:
    role = next(
        each
        for each in yaml.safe_load_all(RBAC.read_text(encoding="utf-8"))
        if each["kind"] == "Role"
    )
    return {
        (verb, resource)
        for rule in role["rules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }


def test_a_script_runs_in_pods_with_the_folder_that_was_sent_and_no_pod_is_left(
    kube: KubeServer, pods: CommandBed
) -> None:
    pods.write("train.py", SHOW)
    pods.write("data.txt", "and reads its file")
    said = pods.done(*UP, "--workers", "2", *PLAIN, "train.py")
    assert (
        "hosts: 2 pods of registry.example.com/me/train:1\n"
        "creating 2 pods in namespace team-a of small\nall 2 pods run after" in said
    )
    for index in (0, 1):
        assert (
            f"worker:{index} | worker:{index} in bed-worker-{index} and reads its file\n" in said
        ), said
    assert kube.pods() == []
    assert [
        name for name in os.listdir(pods.environ["TMPDIR"]) if not name.startswith("psclust-ports")
    ] == []
    # pods/exec is asked for by GET; newer servers also want create.
    assert kube.asked == allowed() - {("create", "pods/exec")}
    assert pods.done("down") == "bed is down already; it ended well\n"


def test_commands_in_a_pod_have_an_input_an_end_and_an_exit_code(
    kube: KubeServer, tmp_path: Path
) -> None:
    api = KubeApi(KubeLocation(str(kube.kubeconfig(tmp_path)), "small", "team-a"))
    file = ClusterFile(
        name="c", hosts=[Host("ps-0"), Host("ps-1")], kubernetes=Kubernetes(image="a", start=1.0)
    )
    api.create_pod(pod_objects(file, "r")["ps-0"])
    wait_until(lambda: kube.running, what="the pod")
    with KubeHosts(api, "c", file.hosts, partial=True) as hosts:
        assert (hosts.names, hosts.failures) == (("ps-0",), {"ps-1": "ps-1: it has no pod."})
        big = os.urandom(1 << 20)
        line = "cat; echo said >&2; exit 7"
        done = run(hosts, "ps-0", line, stdin=big + b"end", timeout_s=60)
        assert (done.code, done.stdout, done.stderr) == (7, big + b"end", b"said\n")
        line = "echo one; read line; echo $line; sleep 1000"
        with hosts.start("ps-0", line, "it was tried") as process:
            assert process.read_line(None) == b"one\n"
            process.write(b"two\n")
            assert process.read_line(None) == b"two\n"
            with pytest.raises(HostError, match="ps-0: no answer in time while it was tried"):
                process.wait(time.monotonic())
        with pytest.raises(HostError, match="ps-0: `sleep 1000` did not end in time"):
            run(hosts, "ps-0", "sleep 1000", timeout_s=0.5)
        wait_until(
            lambda: kube.bed and kube.commands("c-ps-0").count("sleep 1000") == 1,
            what="the end of the leashed command",
        )


@pytest.mark.long
@pytest.mark.tensorflow
@pytest.mark.parametrize("update", ["--sync", "--async"])
@pytest.mark.parametrize("replication", ["in-graph", "between-graph"])
def test_the_digits_are_learned_in_pods(
    kube: KubeServer, pods: CommandBed, replication: str, update: str
) -> None:
    # In-graph, every worker reads the files that the client has made.
    pods.write("psclust.yaml", "kubernetes: {volumes: {data: /mnt/data}}\n")
    options = ["--ps", "2", "--workers", "2", "--replication", replication, update]
    program = [DIGITS, "--set", "data_dir=/mnt/data/digits"]
    said = pods.done(*UP[:4], "-f", "psclust.yaml", *options, *program, deadline_s=240)
    assert is_learned(said), said
    assert "is used, which takes more time" not in said  # encrypted, by psclust's own wire, too
    assert kube.pods() == []


@pytest.mark.long
def test_verbs_reach_a_detached_run_and_down_removes_its_pods(
    kube: KubeServer, pods: CommandBed
) -> None:
    pods.write("train.py", PATIENT)
    pods.write(
        "c.yaml",
        "name: bed\njobs: {worker: 2}\nprogram: train.py\nkubernetes: {image: a}\n"
        "role_by: none\npreload: false\n",
    )
    pods.done("up", "--kubernetes", "-f", "c.yaml", "-d")
    pods.done("restart", "worker:1")
    assert pods.wait_for("worker:1", "running", attempt=2).host == "worker-1"
    wait_until(
        lambda: "up" in pods.run("logs", "worker:1")[1], what="the output of the second attempt"
    )
    assert kube.pods() == ["bed-worker-0", "bed-worker-1"]
    said = pods.done("exec", "--kubernetes", "-f", "c.yaml", "--json", "--", "hostname")
    assert [(row["host"], row["stdout"]) for row in json.loads(said)] == [
        (f"worker-{index}", f"bed-worker-{index}\n") for index in (0, 1)
    ]
    pods.done("down")
    assert kube.pods() == []
    said = pods.fails(1, "exec", "--kubernetes", "-f", "c.yaml", "hostname")
    assert said.count("it has no pod") == 2, said


@pytest.mark.long
def test_servers_without_an_end_of_input_will_do(kube: KubeServer, pods: CommandBed) -> None:
    """As those before Kubernetes 1.30."""
    kube.protocols = ("v4.channel.k8s.io",)
    pods.write("train.py", "print('trained')\n")
    assert "worker:0 | trained\n" in pods.done(*UP, "--workers", "1", *PLAIN, "train.py")


@pytest.mark.long
def test_in_the_kubernetes_cluster_agents_are_called_directly(
    kube: KubeServer, pods: CommandBed
) -> None:
    """Whose network this machine shares with the pods."""
    pods.environ["KUBERNETES_SERVICE_HOST"] = "10.0.0.1"
    pods.write("train.py", "print('trained')\n")
    pods.done(*UP, "--workers", "2", *PLAIN, "train.py")
    assert kube.execs == 2  # the log-ins


@pytest.mark.long
@pytest.mark.parametrize("how", ["drained", "lost"])
def test_the_tasks_of_a_lost_pod_move_to_a_spare_one(
    kube: KubeServer, pods: CommandBed, how: str
) -> None:
    pods.write("psclust.yaml", "kubernetes: {spares: 1}\ndeadlines: {lease: 10, stop: 1}\n")
    running = start(pods, 2, "-f", "psclust.yaml")
    pods.wait_for("worker:1", "running")
    (kube.drain if how == "drained" else kube.lose)("bed-worker-1")
    wait_until(
        lambda: (
            (task := pods.task("worker:1")) and task.host == "spare-0" and task.phase == "running"
        ),
        60,
        what="the move",
    )
    assert "host worker-1 is lost, with worker:1" in running.output
    running.interrupt()
    assert running.wait() == 130
    assert kube.pods() == []


@pytest.mark.long
def test_when_the_supervisor_is_killed_its_guard_removes_the_pods(
    kube: KubeServer, pods: CommandBed
) -> None:
    running = start(pods, 1)
    pods.wait_for("worker:0", "running")
    up = psutil.Process(running.process.pid)
    (guard,) = up.children()
    (supervisor,) = guard.children()
    supervisor.kill()
    assert running.wait() == 1
    assert kube.pods() == []


def lose_launcher(running: Running) -> None:
    """Kill everything on the launcher's side, none of which can act once the first of it is
    dead."""
    up = psutil.Process(running.process.pid)
    for process in [*up.children(recursive=True), up]:
        process.send_signal(signal.SIGSTOP)
    for process in [*up.children(recursive=True), up]:
        process.kill()
    running.process.wait()


@pytest.mark.long
def test_when_the_launchers_machine_dies_the_pods_end_by_their_lease_and_down_removes_them(
    kube: KubeServer, pods: CommandBed
) -> None:
    pods.write("psclust.yaml", "deadlines: {lease: 10, stop: 1}\n")
    running = start(pods, 2)
    pods.wait_for("worker:1", "running")
    lose_launcher(running)
    wait_until(
        lambda: all(pod.process.poll() == 0 for pod in kube.running.values()),
        60,
        what="the end of the pods",
    )
    assert kube.pods() == ["bed-worker-0", "bed-worker-1"]  # ended, but still listed
    assert "2 hosts that its runs had left were removed" in pods.done("down")
    assert kube.pods() == []


@pytest.mark.long
def test_the_next_up_removes_what_a_dead_launcher_left(kube: KubeServer, pods: CommandBed) -> None:
    running = start(pods, 1)
    pods.wait_for("worker:0", "running")
    lose_launcher(running)
    pods.write("train.py", "print('again')\n")
    assert "worker:0 | again" in pods.done(*UP, "--workers", "1", *PLAIN, "train.py")
    assert kube.pods() == []


@pytest.mark.long
def test_ctrl_c_while_pods_wait_leaves_none(kube: KubeServer, pods: CommandBed) -> None:
    kube.verdict = lambda pod: {"phase": "Pending"}
    running = start(pods, 2)
    wait_until(lambda: len(kube.pods()) == 2, what="two pods")
    running.interrupt()
    assert running.wait() == 130
    assert "was stopped before it was up" in running.output
    assert kube.pods() == []
