"""Which runs can be changed, by which counts and hosts, and what is said where not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from psclust import __version__
from psclust.errors import UsageError
from psclust.launch.host_change import HostChange, with_hosts
from psclust.launch.live_change import LiveRun, find_live_run, with_counts, with_policy
from psclust.plan.build_plan import Run, build_plan
from psclust.plan.diff import compare, must_save
from psclust.plan.plan_inputs import PlanInputs
from psclust.plan.task_environment import HostEnvironment
from psclust.rundir.atomic_file import write_required
from psclust.rundir.folder import ClusterFolder
from psclust.rundir.status import RunStatus, TaskStatus
from psclust.spec.cluster import Host
from psclust.spec.cluster_file import ClusterFile
from psclust.supervise.replan import write_plan_inputs

HERE = HostEnvironment({}, "/project", "python", "/shim.so")


def file_of(**keys: Any) -> ClusterFile:
    usual = {"name": "r", "jobs": {"ps": 1, "worker": 2}, "program": "a.b:program"}
    return ClusterFile.model_validate({**usual, **keys}, strict=False)


def status_of(phase: str = "live", **phases: str) -> RunStatus:
    tasks = tuple(
        TaskStatus(f"{job}:0", "program", now, "localhost", None, 7, 1, 0, None, 0.0, None)
        for job, now in {"ps": "running", "worker": "running", **phases}.items()
    )
    return RunStatus("r", "1", "/r", phase, 7, 0.0, tasks, psclust=__version__)


def found(tmp_path: Path, file: ClusterFile, status: RunStatus) -> LiveRun:
    cluster = ClusterFolder(tmp_path / "r")
    folder = cluster.new_run()
    inputs = PlanInputs(file, {}, {}, HERE)
    plan = build_plan(inputs, inputs.lay_out(), Run("1", str(folder.path)), {})
    write_required(folder.plan, plan.to_json())
    write_plan_inputs(folder, inputs)
    return find_live_run(cluster, folder, status)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (status_of("queued"), "r is queued: nothing of it runs yet. Change it once it is up."),
        (status_of("finishing"), r"r is about to end; start it anew to change it \(psclust up\)."),
        (status_of("stopping"), "r is about to end"),
        (status_of(worker="waiting"), r"r is still starting \(worker:0: waiting\); try again when"),
        (status_of(ps="starting"), r"r is still starting \(ps:0: starting\)"),
        (status_of(worker="stopping"), r"r is being changed \(worker:0: stopping\)"),
        (status_of(worker="backoff"), r"r starts tasks again that have failed \(worker:0: backoff"),
        (replace(status_of(), tasks=()), "r is still starting; try again when it is up"),
        (replace(status_of(), psclust="0.0.1"), "r is up, started by psclust 0.0.1, and this is"),
    ],
)
def test_only_a_run_that_is_up_can_be_changed(
    tmp_path: Path, status: RunStatus, expected: str
) -> None:
    with pytest.raises(UsageError, match=expected):
        found(tmp_path, file_of(), status)


def test_what_is_read_back_is_what_was_started(tmp_path: Path) -> None:
    file = file_of(input="handed_out")
    run = found(tmp_path, file, status_of())
    assert run.file == file
    assert run.file.model_fields_set == file.model_fields_set


@pytest.mark.parametrize(
    ("keys", "counts", "expected"),
    [
        ({}, {"ps": 0}, "ps=0: a psclust program needs at least one ps; write 1 or more."),
        ({}, {"evaluator": 1}, "evaluator=1: only ps and worker are scaled."),
        (
            {"hosts": [Host("a", 2), Host("b", 2)]},
            {"worker": 4},
            "worker=4: 4 workers and 1 ps need 5 slots; the hosts offer 4 (a: 2, b: 2). "
            "Lower the count or raise slots.",
        ),
        (
            {"hosts": [Host("a", 2), Host("b", 1)], "found": "a Slurm allocation"},
            {"worker": 3},
            "worker=3: 3 workers and 1 ps need 4 slots; the hosts offer 3 (a: 2, b: 1). "
            "Lower the count or ask for more CPUs.",
        ),
        (
            {"jobs": {"ps": {"count": 1, "addresses": ["127.0.0.1:2222"]}, "worker": 1}},
            {"ps": 2},
            "ps=2: jobs.ps has `addresses`, one for each task. Write the new ones there, end the "
            "run (psclust down r), and start it again.",
        ),
        (
            {"jobs": {"ps": 1, "worker": {"count": 2, "task_env": {1: {"A": 1}}}}},
            {"worker": 1},
            "jobs.worker.task_env.1: there is no worker:1: the last task is worker:0; indices "
            "begin at 0.",
        ),
        (
            {"placement": {"pin": {"a": 1}}, "jobs": {"ps": 2, "worker": 1}},
            {"ps": 1},
            "placement.pin.a: there is no ps:1: the last task is ps:0; indices begin at 0.",
        ),
    ],
)
def test_counts_obey_the_rules_of_a_cluster_file(
    keys: dict[str, Any], counts: dict[str, int], expected: str
) -> None:
    with pytest.raises(UsageError) as caught:
        with_counts(file_of(**keys), counts, name="r")
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("keys", "change", "expected"),
    [
        ({}, HostChange(removed=("a",)), "-H: r runs on this machine alone. End it"),
        (
            {"hosts": [Host("a")], "reach_by": "slurm"},
            HostChange((Host("b"),)),
            r"-H: the hosts of r were given to it \(slurm\), so it keeps them.",
        ),
        (
            {"hosts": [Host("a")]},
            HostChange(removed=("a",)),
            "-H: no host would be left; end the run",
        ),
    ],
)
def test_hosts_that_cannot_change(
    tmp_path: Path, keys: dict[str, Any], change: HostChange, expected: str
) -> None:
    run = found(tmp_path, file_of(**keys), status_of())
    with pytest.raises(UsageError, match=expected):
        with_hosts(run, change)


@pytest.mark.parametrize(
    ("keys", "change", "saves"),
    [
        ({"input": "handed_out"}, {"worker": 3}, False),
        ({"input": "handed_out", "update": "sync"}, {"worker": 3}, False),
        ({"input": "handed_out", "replication": "in-graph"}, {"worker": 1}, False),
        ({"input": "handed_out"}, {"ps": 2}, True),
        ({}, {"worker": 3}, True),
        ({"replication": "in-graph"}, {"worker": 3}, True),
        ({"program": "train.py"}, {"worker": 3}, False),
    ],
)
def test_what_needs_a_checkpoint(keys: dict[str, Any], change: dict[str, int], saves: bool) -> None:
    old, new = (
        build_plan(inputs, inputs.lay_out(), Run("1", "/r"), {})
        for file in (file_of(**keys), with_counts(file_of(**keys), change, name="r"))
        for inputs in [PlanInputs(file, {}, {}, HERE)]
    )
    assert must_save(new, compare(old, new)) is saves


def test_another_policy_needs_one() -> None:
    file = file_of(input="handed_out")
    old, new = (
        build_plan(inputs, inputs.lay_out(), Run("1", "/r"), {})
        for inputs in (
            PlanInputs(each, {}, {}, HERE) for each in (file, with_policy(file, "balanced"))
        )
    )
    assert must_save(new, compare(old, new))
