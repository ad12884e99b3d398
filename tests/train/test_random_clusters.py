"""Which task of which cluster a process is: random variables of the launcher, and random clusters
as TF_CONFIG has them."""

from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st

from beds.damage import DATA, damaged, likely
from psclust.errors import UsageError
from psclust.runtime.server_def import Request
from psclust.runtime.server_request import parse
from psclust.spec.cluster import ClusterSpec, Task, render_tf_config
from psclust.train.task_context import TaskContext, read_context

CLUSTER = {"ps": ["a:1", "b:1"], "worker": ["a:2", "b:2"], "evaluator": ["a:3"]}
TEXT = json.dumps(CLUSTER)
BROKEN = (damaged(TEXT) | likely(CLUSTER)).map(lambda data: data.decode("utf-8", "replace"))
VALUES = (
    st.sampled_from(["", "worker:0", "ps:1", "worker:9", "worker/1", "sync", "in-graph", "2", "-1"])
    | st.sampled_from(["balanced", '{"policy": "balanced", "pin": {"a": 0}}', "٣", "/run"])
    | DATA.map(json.dumps)
    | st.text(max_size=8)
)
WORDS = (
    "TASK REPLICATION UPDATE PLACEMENT BACKUP_WORKERS MAX_STALENESS DEVICE_COUNT JOB_ATTEMPT RUN"
)
NAMES = st.sampled_from([f"PSCLUST_{word}" for word in WORDS.split()])


@given(BROKEN | st.just(TEXT), st.dictionaries(NAMES, VALUES, max_size=4))
def test_a_process_knows_its_task_or_says_what_is_wrong(cluster: str, more: dict[str, str]) -> None:
    try:
        found = read_context({"PSCLUST_TASK": "worker:0", **more, "PSCLUST_CLUSTER": cluster})
    except UsageError as error:
        if not str(error).strip() or "Traceback" in str(error):
            raise
    else:
        assert isinstance(found, TaskContext)
        if found.task is not None:
            assert found.is_chief in (True, False)
            assert found.peers is not None
            assert found.is_evaluator or found.address(found.task)


@given(BROKEN | st.just(TEXT), st.sampled_from(["ps", "worker", "x"]), st.integers(-1, 3))
@example(f'{{"ps": ["a:{"9" * 5000}"]}}', "ps", 0)
@example('{"ps": ["a:²"]}', "ps", 0)
def test_a_server_knows_its_cluster_or_says_what_is_wrong(
    cluster: str, job: str, task: int
) -> None:
    try:
        found = parse([f"--cluster={cluster}", "--job", job, f"--task={task}"])
        assert found.encoded()
    except UsageError as error:
        if not str(error).strip() or "Traceback" in str(error):
            raise
    else:
        assert isinstance(found, Request)
        assert found.listens_on is None or found.listens_on >= 0


ADDRESSES = st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=3).map(tuple)


@given(st.dictionaries(st.text(min_size=1, max_size=6), ADDRESSES, max_size=3), st.integers(0, 9))
def test_tf_config_has_the_cluster_and_the_task(
    jobs: dict[str, tuple[str, ...]], index: int
) -> None:
    cluster, task = ClusterSpec(jobs), Task("worker", index)
    found = json.loads(render_tf_config(cluster, task))
    assert found["task"] == {"type": "worker", "index": index}
    assert {job: tuple(there) for job, there in found["cluster"].items()} == jobs
