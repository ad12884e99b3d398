"""Which task a process is."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from psclust.errors import UsageError
from psclust.replication.device_layout import LOCAL, DeviceLayout
from psclust.spec.cluster import Task
from psclust.train.task_context import TaskContext, read_context

CLUSTER = {"ps": ["a:1", "b:1"], "worker": ["a:2", "b:2"]}


def _read(task: str, cluster: dict[str, list[str]] = CLUSTER, **more: str) -> TaskContext:
    return read_context({"PSCLUST_CLUSTER": json.dumps(cluster), "PSCLUST_TASK": task} | more)


def test_without_a_cluster_a_process_trains_alone() -> None:
    context = read_context({"PSCLUST_RUN_DIR": "/run"})
    assert context.task is None
    assert context.is_chief
    assert context.layout == LOCAL
    assert (str(context.run_dir), context.progress_file) == ("/run", None)


def test_between_graph_the_first_worker_is_chief() -> None:
    first, second = _read("worker:0"), _read("worker:1", PSCLUST_UPDATE="sync")
    assert (first.is_chief, second.is_chief) == (True, False)
    assert (first.sync, second.sync) == (False, True)
    assert second.layout == DeviceLayout(
        2, ("/job:worker/task:0", "/job:worker/task:1"), "/job:worker/task:1"
    )
    assert second.peers == (Task("ps", 0), Task("ps", 1))


def test_a_worker_has_the_devices_it_is_told_of() -> None:
    assert _read("worker:1", PSCLUST_DEVICE_COUNT="2").device_count == 2
    found = replace(_read("worker:1"), devices=("/device:CPU:0", "/device:CPU:1")).layout
    assert (len(found.workers), found.devices) == (2, ("/device:CPU:0", "/device:CPU:1"))
    assert found.towers.workers[2:] == (
        "/job:worker/task:1/device:CPU:0",
        "/job:worker/task:1/device:CPU:1",
    )


def test_a_chief_job_trains_too_and_comes_first() -> None:
    cluster = CLUSTER | {"chief": ["c:2"]}
    context = _read("worker:0", cluster)
    assert context.replicas == (Task("chief", 0), Task("worker", 0), Task("worker", 1))
    assert not context.is_chief
    assert _read("chief:0", cluster).is_chief


def test_in_graph_the_client_drives_towers_on_all_workers() -> None:
    ways = {"PSCLUST_REPLICATION": "in-graph", "PSCLUST_UPDATE": "sync"}
    context = _read("client:0", CLUSTER | {"client": ["c:2"]}, **ways)
    assert context.layout == DeviceLayout(
        2, ("/job:worker/task:0", "/job:worker/task:1"), "/job:client/task:0"
    )
    assert context.peers == (Task("ps", 0), Task("ps", 1), Task("worker", 0), Task("worker", 1))
    assert context.is_chief


def test_who_waits_for_whom_is_in_the_environment_too() -> None:
    assert (_read("worker:0").backup_workers, _read("worker:0").max_staleness) == (0, None)
    found = _read("worker:0", PSCLUST_BACKUP_WORKERS="2", PSCLUST_MAX_STALENESS="0")
    assert (found.backup_workers, found.max_staleness) == (2, 0)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"CLUSTER": "not json"},
            "or PSCLUST_VARIABLES cannot be read",
        ),
        ({"CLUSTER": "[]"}, "cannot be read"),
        ({"TASK": ""}, "is not a task"),
        ({"TASK": "worker:2"}, "PSCLUST_TASK is worker:2, which is not in PSCLUST_CLUSTER"),
        ({"TASK": "ps:0"}, "PSCLUST_TASK is ps:0: between-graph, the program runs on"),
        ({"UPDATE": "fast"}, "PSCLUST_UPDATE is 'fast'; it must be one of async, sync"),
        ({"MAX_STALENESS": "-1"}, "MAX_STALENESS is '-1'; it must be a whole number, 0 or more"),
        ({"DEVICE_COUNT": "two"}, "PSCLUST_DEVICE_COUNT is 'two'"),
    ],
)
def test_an_environment_that_makes_no_sense_is_a_usage_error(
    environment: dict[str, str], message: str
) -> None:
    good = {"CLUSTER": json.dumps(CLUSTER), "TASK": "worker:0"}
    with pytest.raises(UsageError) as error:
        read_context({f"PSCLUST_{name}": value for name, value in (good | environment).items()})
    assert message in str(error.value)
