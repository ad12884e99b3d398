"""What `up` makes of a script of which one chief alone should run the code, where the user has not
said it."""

from __future__ import annotations

from typing import Any

import pytest

from psclust.plan.coordination import coordinated
from psclust.spec.cluster_file import ClusterText

COORDINATES = """
import tensorflow as tf
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = tf.distribute.ParameterServerStrategy(resolver)
"""
OWN_SERVERS = """
import tensorflow as tf
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    spec, job, index = resolver.cluster_spec(), resolver.task_type, resolver.task_id
    tf.distribute.Server(spec, job_name=job, task_index=index).join()
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
"""
IN_PROCESS = """
import tensorflow as tf
servers = [tf.distribute.Server(spec, "worker", index) for index in range(2)]
strategy = tf.distribute.ParameterServerStrategy(SimpleClusterResolver(spec))
"""
COUNTS = {"ps": 1, "worker": 2}


def suited(source: str, **keys: Any) -> tuple[str | None, dict[str, int], str | None]:
    """The replication, the counts of the jobs, and the note."""
    before = ClusterText.model_validate({"jobs": COUNTS, "program": "train.py", **keys})
    after, note = coordinated(before, "train.py", [source])
    return after.replication, {name: job.count for name, job in after.jobs.items()}, note


def test_a_coordinator_script_gets_coordinator_replication() -> None:
    replication, jobs, note = suited(COORDINATES)
    assert (replication, jobs) == ("coordinator", COUNTS)
    assert note is not None
    assert note.startswith(
        "train.py coordinates the workers: only a chief, which psclust adds, runs it;"
    )
    assert "--replication between-graph" in note
    replication, jobs, note = suited(COORDINATES, jobs={**COUNTS, "master": 1, "evaluator": 1})
    assert replication == "coordinator"
    assert note is not None
    assert "only the master runs it" in note


def test_a_coordinator_script_that_starts_the_servers_gets_a_chief_alone() -> None:
    for keys in ({}, {"role_by": "tf_config"}):
        replication, jobs, note = suited(OWN_SERVERS, **keys)
        assert (replication, jobs) == (None, {**COUNTS, "chief": 1})
        assert note is not None
        assert "--job chief=0" in note


@pytest.mark.parametrize(
    ("source", "keys"),
    [
        # The user's own word.
        (COORDINATES, {"replication": "between-graph"}),
        (COORDINATES, {"replication": "coordinator"}),
        (COORDINATES, {"role_by": "none"}),
        (COORDINATES, {"jobs": {**COUNTS, "chief": 0}}),
        (OWN_SERVERS, {"jobs": {**COUNTS, "chief": 0}}),
        (OWN_SERVERS, {"jobs": {**COUNTS, "chief": 1}}),
        (COORDINATES, {"jobs": {**COUNTS, "controller": 1}}),
        (COORDINATES, {"jobs": {"ps": {"run": "server"}, "worker": {"run": "server"}, "chief": 1}}),
        (COORDINATES, {"jobs": {"ps": 1, "worker": {"run": "program"}}}),
        (COORDINATES, {"jobs": {"ps": 1, "worker": {"extra_args": ["--worker"]}}}),
        (COORDINATES, {"ends_with": "workers"}),
        (COORDINATES, {"ends_with": ["worker"]}),
        (COORDINATES, {"jobs": {"ps": 1}}),
        # Every task runs these.
        (IN_PROCESS, {}),
        (OWN_SERVERS.replace("TFConfigClusterResolver", "made"), {}),
        (COORDINATES + "tf.estimator.train_and_evaluate(tf.estimator.Estimator(f), a, b)", {}),
        (COORDINATES + "other = tf.distribute.MultiWorkerMirroredStrategy()", {}),
        ("import tensorflow as tf\ntf.distribute.MultiWorkerMirroredStrategy()", {}),
        (
            (
                "import tensorflow.compat.v1 as tf\n"
                "tf.distribute.experimental.ParameterServerStrategy(resolver)"
            ),
            {},
        ),
        (
            (
                "import tensorflow as tf\n"
                "tf.compat.v1.distribute.experimental.ParameterServerStrategy(resolver)"
            ),
            {},
        ),
        ("def broken(:  # ParameterServerStrategy", {}),
    ],
)
def test_any_other_request_stays_as_it_is(source: str, keys: dict[str, Any]) -> None:
    before = ClusterText.model_validate({"jobs": COUNTS, "program": "train.py", **keys})
    assert coordinated(before, "train.py", [source]) == (before, None)
