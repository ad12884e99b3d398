"""What psclust does for scripts holds for every Python task, however it is started."""

from __future__ import annotations

import pytest

from beds.command import CommandBed
from beds.scripts import MODEL

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

# worker:1 only serves; the chief ends while worker:0 has yet to begin, and a session without
# filters needs every server.
SCRIPT = (
    """
import json, os, time
import tensorflow.compat.v1 as tf
from tensorflow.python.training.session_manager import SessionManager
tf.disable_eager_execution()
job, task_index = os.environ["PSCLUST_TASK"].split(":")
task_index = int(task_index)
cluster = tf.train.ClusterSpec(json.loads(os.environ["PSCLUST_CLUSTER"]))
server = tf.train.Server(cluster, job_name=job, task_index=task_index)
if (job, task_index) in (("ps", 0), ("worker", 1)):
    server.join()
print("recovery wait", SessionManager()._recovery_wait_secs)
"""
    + MODEL
    + """
of_chief = os.environ["PSCLUST_PROGRESS"].replace("worker-0", "chief-0")
while job == "worker" and not os.path.exists(of_chief):
    time.sleep(0.1)
with tf.train.MonitoredTrainingSession(server.target, is_chief=job == "chief") as s:
    print(job, "trained to", s.run([loss, train])[0])
"""
)

CLUSTERS = {
    "another environment": (
        "{jobs: {ps: 1, chief: 1, worker: 2}, program: server.py, env: {TF_USE_LEGACY_KERAS: 1}}"
    ),
    "a command of Python": (
        "{jobs: {ps: 1, chief: {run: [python, server.py]}, "
        "worker: {count: 2, run: [python3, -u, -m, server]}}, program: server.py}"
    ),
}

NOT_PRELOADED = "{jobs: {ps: 1, chief: 1, worker: 2}, program: server.py, preload: false}"


@pytest.mark.parametrize(
    "cluster",
    [
        CLUSTERS["another environment"],
        *(
            pytest.param(text, marks=pytest.mark.long)
            for text in (CLUSTERS["a command of Python"], NOT_PRELOADED)
        ),
    ],
    ids=[*CLUSTERS, "not preloaded"],
)
def test_a_server_is_seen_and_kept_and_the_wait_is_lowered(bed: CommandBed, cluster: str) -> None:
    bed.write("server.py", SCRIPT)
    bed.write("psclust.yaml", cluster)
    said = bed.done("up", "--role-by", "none")
    assert "ended well" in said
    assert "chief:0  | recovery wait 1.0" in said
    assert "worker trained to" in said
    assert "had not ended" not in said
    assert [task.joined for task in bed.status().tasks if task.task == "worker:1"] == [True]
