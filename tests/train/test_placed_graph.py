"""What a chief says about psclust's kernels when it builds its graph."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from psclust.replication import kernels
from psclust.spec.cluster import ClusterSpec, Task
from psclust.spec.tensorflow_builds import LIBRARY
from psclust.train.placed_graph import choose_kernels
from psclust.train.task_context import TaskContext

pytestmark = pytest.mark.tensorflow
CLUSTER = ClusterSpec({"ps": ("a:1",), "worker": ("a:2", "a:3")})


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """That of a TensorFlow whose library is none, so that no kernels fit it."""
    (tmp_path / LIBRARY).write_bytes(b"")
    return str(tmp_path)


@pytest.mark.parametrize(
    ("context", "wire_dtype", "said"),
    [
        (TaskContext(Task("worker", 0), CLUSTER), "float32", "do not fit this build of TensorFlow"),
        (TaskContext(Task("worker", 1), CLUSTER), "float32", ""),
        (TaskContext(Task("worker", 1), CLUSTER), "int8", "kernels are missing on worker:1"),
        (TaskContext(Task("worker", 0), CLUSTER, kernels=False), "float32", ""),
        (TaskContext(), "float32", ""),
    ],
    ids=["chief", "another worker", "another worker, int8", "graph built again", "no cluster"],
)
def test_the_chief_says_once_that_kernels_do_not_fit(
    context: TaskContext, wire_dtype: str, said: str, folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="psclust"), tf.Graph().as_default():
        choose_kernels(context, wire_dtype, None, folder)
        assert kernels.in_use() is None
    assert len(caplog.records) == bool(said)
    assert said in caplog.text
