"""What a launcher reads before it changes, moves or ends a run: all of it, or a sentence with what
to do, and the file stays as it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beds.damage import damaged, likely
from beds.plans import program_plan
from psclust.control.network_access import channel_from_elsewhere
from psclust.errors import PsclustError
from psclust.launch.footprints import recorded_footprints, write_footprints
from psclust.plan.plan_inputs import PlanInputs
from psclust.plan.task_environment import HostEnvironment
from psclust.plan.task_plan import Deadlines, Plan
from psclust.reach.made_hosts import remove_hosts
from psclust.rundir.folder import ClusterFolder, RunFolder
from psclust.spec.cluster import ClusterSpec, Task
from psclust.spec.cluster_file import ClusterFile
from psclust.supervise.replan import read_plan, read_plan_inputs

WORKER = Task("worker", 0)
PLAN = Plan(
    "demo",
    ClusterSpec({"worker": ("a:1",)}),
    (program_plan(WORKER, "a", ("train",)),),
    Deadlines(start_s=60, stop_s=10, finish_s=30, run_s=None),
    ("a note",),
)
INPUTS = PlanInputs(
    ClusterFile(name="demo"), {}, {}, HostEnvironment({}, "/", "python", None, 4, ("10.0.0.1",))
)
FOOTPRINTS = {
    "demo.1": {
        "a": {
            "reach_by": "ssh",
            "host": {"name": "a", "slots": 1, "user": None, "port": 22},
            "python": "python3",
            "cache": "/cache",
            "folder": "/folder",
        }
    }
}
MADE = {"reach_by": "ssh", "cluster": "demo", "place": {"namespace": "default"}}
PEM = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"
ACCESS = {
    "addresses": ["127.0.0.1:1"],
    "identity": dict.fromkeys(("key", "certificate", "authority"), PEM),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return ClusterFolder(tmp_path_factory.mktemp("runs") / "demo").new_run()


def broken(text: str) -> st.SearchStrategy[bytes]:
    return damaged(text) | likely(json.loads(text))


def _read_or_refused(read: Callable[[], Any], path: Path) -> Any:
    before = path.read_bytes()
    try:
        found = read()
    except PsclustError as error:
        assert "Traceback" not in str(error)  # noqa: PT017
        assert len(str(error)) < 1000  # noqa: PT017
        assert path.read_bytes() == before
        return None
    return found


@given(broken(PLAN.to_json()))
def test_the_plan_of_a_run(folder: RunFolder, content: bytes) -> None:
    folder.plan.write_bytes(content)
    found = _read_or_refused(lambda: read_plan(folder), folder.plan)
    if found is not None:
        assert Plan.from_json(found.to_json()) == found


@given(broken(INPUTS.to_json()))
def test_the_inputs_of_a_plan(folder: RunFolder, content: bytes) -> None:
    folder.plan_inputs.write_bytes(content)
    found = _read_or_refused(lambda: read_plan_inputs(folder), folder.plan_inputs)
    if found is not None:
        assert PlanInputs.from_json(found.to_json()) == found


@given(broken(json.dumps(FOOTPRINTS)))
def test_what_runs_have_left_on_hosts(folder: RunFolder, content: bytes) -> None:
    cluster = ClusterFolder(folder.path.parent)
    cluster.hosts.write_bytes(content)
    found = _read_or_refused(lambda: recorded_footprints(cluster), cluster.hosts)
    if found is not None:
        write_footprints(cluster, {**found, "more": {}})
        assert recorded_footprints(cluster) == {**found, "more": {}}


@given(broken(json.dumps(MADE)))
def test_hosts_that_were_made(folder: RunFolder, content: bytes) -> None:
    folder.made_hosts.write_bytes(content)
    try:
        assert _read_or_refused(lambda: remove_hosts(folder), folder.made_hosts) in (None, 0)
    finally:
        folder.made_hosts.unlink(missing_ok=True)


@given(broken(json.dumps(ACCESS)))
@example(json.dumps(ACCESS).replace(json.dumps(PEM), '""', 1).encode())
def test_the_way_to_a_supervisor_elsewhere(folder: RunFolder, content: bytes) -> None:
    folder.access.write_bytes(content)
    channel = _read_or_refused(lambda: channel_from_elsewhere(folder, []), folder.access)
    assert channel is None or isinstance(channel, grpc.Channel)
    if channel is not None:
        channel.close()
