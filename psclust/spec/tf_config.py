"""TF_CONFIG, the variable from which TensorFlow 2 programs read their cluster and their role in
it."""

from __future__ import annotations

import json

from psclust.spec.cluster import ClusterSpec, Task


def render_tf_config(cluster: ClusterSpec, task: Task) -> str:
    """The JSON text for `task`. A task outside the cluster (an evaluator) still gets the cluster,
    as TensorFlow's resolver expects."""
    return json.dumps(
        {"cluster": cluster.as_dict(), "task": {"type": task.job, "index": task.index}},
        separators=(",", ":"),
    )
