"""What `up` and `plan` know before anything starts, without any process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from psclust.errors import ClusterFileError, StartError, UsageError
from psclust.launch.cluster_copy import cluster_text
from psclust.launch.host_agents import other_hosts
from psclust.launch.preflight import refuse_what_cannot_start
from psclust.launch.start_run import claim_name
from psclust.launch.status_stream import StatusStream
from psclust.launch.up_request import UpRequest, read_request
from psclust.plan.diff import compare
from psclust.pods.agent_pods import pods_of
from psclust.pods.file_in_pod import VARIABLE, read_file, render_file
from psclust.rundir.status import RunStatus
from psclust.spec.cluster import Task
from psclust.spec.kubernetes_checks import refuse_hosts
from psclust.testing.wait import wait_until


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def request_of(folder: Path, text: str) -> UpRequest:
    (folder / "one.yaml").write_text(text)
    return read_request("one.yaml", run_dir=str(folder / "runs"))


def test_before_the_start_fixed_ports_are_known_and_others_open(folder: Path) -> None:
    request = request_of(folder, "jobs: {ps: {count: 2, ports: 2300}, worker: 1}")
    plan = request.plan_before_start()
    assert plan.cluster.as_dict() == {
        "ps": ["127.0.0.1:2300", "127.0.0.1:2301"],
        "worker": ["127.0.0.1:auto"],
    }
    first = plan[Task("ps", 0)]
    assert first.env["PSCLUST_RUN_DIR"] == str(folder / "runs" / "one" / "<run>")
    assert request.first_tasks == {"ps": first, "worker": plan[Task("worker", 0)]}


def test_tasks_of_an_encrypted_run_have_the_same_address_on_every_host(folder: Path) -> None:
    jobs = "jobs: {ps: {count: 1, ports: 2300}, worker: {count: 1, ports: 2400}}"
    for keys, addresses in (
        ("hosts: a,b", ["127.0.0.1:2300", "127.0.0.1:2400"]),
        ("hosts: a,b\nencrypt: false", ["a:2300", "b:2400"]),
    ):
        plan = request_of(folder, f"{jobs}\n{keys}").plan_before_start()
        assert [task.address for task in plan.tasks] == addresses


def test_nothing_that_is_missing_is_started(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"train\.py: No such file or directory"):
        refuse_what_cannot_start(request_of(folder, "program: train.py"))
    with pytest.raises(ClusterFileError):
        request_of(folder, "programm: train.py")


COORDINATES = """
import tensorflow as tf
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = tf.distribute.ParameterServerStrategy(resolver)
"""


@pytest.mark.parametrize(
    "program", ["program: train.py", "program: [python, -m, train]", "program: train.py\ncwd: ."]
)
def test_a_coordinator_script_needs_no_word_and_the_copy_of_its_file_has_it(
    folder: Path, program: str
) -> None:
    (folder / "train.py").write_text(COORDINATES)
    request = request_of(folder, f"{program}\njobs: {{ps: 1, worker: 2}}")
    plan = request.plan_before_start()
    assert [str(task.task) for task in plan.tasks if task.serves] == [
        "ps:0",
        "worker:0",
        "worker:1",
    ]
    assert plan[Task("chief", 0)].decides
    assert "coordinates the workers" in plan.notes[0]
    copied = request_of(folder, cluster_text(request.file, "local")).plan_before_start()
    assert not compare(plan, copied)
    assert "coordinates the workers" not in "".join(copied.notes)


def test_the_chief_of_a_coordinator_script_has_a_slot_and_a_pod(folder: Path) -> None:
    (folder / "train.py").write_text(COORDINATES)
    with pytest.raises(ClusterFileError, match="coordinates the workers"):
        request_of(folder, "program: train.py\nhosts: a:2,b:1")
    (folder / "one.yaml").write_text("program: train.py\nkubernetes: {image: i}")
    request = read_request("one.yaml", run_dir=str(folder / "runs"), find_hosts=pods_of)
    assert [host.name for host in request.file.hosts] == ["chief-0", "ps-0", "worker-0", "worker-1"]
    manifest = read_request("one.yaml", run_dir=str(folder / "runs"), find_hosts=refuse_hosts).file
    assert read_file({VARIABLE: render_file(manifest)}).replication == "coordinator"


def test_this_machine_is_not_mixed_with_others(folder: Path) -> None:
    assert other_hosts(request_of(folder, "hosts: localhost").file) == ()
    assert [host.name for host in other_hosts(request_of(folder, "hosts: a,b").file)] == ["a", "b"]
    with pytest.raises(UsageError, match="localhost means another machine on every host"):
        other_hosts(request_of(folder, "hosts: a,localhost").file)


def test_a_name_is_claimed_once(folder: Path) -> None:
    request = request_of(folder, "jobs: {ps: 1}")
    claimed = claim_name(request)
    assert claimed is not None
    assert claimed[0].path.parent == request.cluster.path
    assert claim_name(request) is None


def test_a_run_folder_that_cannot_be_made_is_named(folder: Path) -> None:
    (folder / "runs").write_text("a file")
    with pytest.raises(
        StartError,
        match=r"runs/one: .*; runs are kept there\. Choose another place with --run-dir\.",
    ):
        claim_name(request_of(folder, "jobs: {ps: 1}"))


def test_the_latest_status_is_read_without_waiting_for_the_stream() -> None:
    go = threading.Event()

    def statuses() -> Iterator[RunStatus]:
        for name in ("first", "second"):
            yield RunStatus(name=name, run="1", folder="", phase="live", supervisor=1, began=0.0)
        go.wait(60)

    stream = StatusStream(statuses())
    seen: list[str] = []

    def second_is_there() -> bool:
        status = stream.latest(0.01)
        seen.extend([status.name] if status else [])
        return "second" in seen

    wait_until(second_is_there, what="the second status")
    assert stream.latest(0.0) is None
    assert not stream.over
    go.set()
    wait_until(lambda: stream.over, what="the end")
