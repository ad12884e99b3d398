"""What a chief says about psclust's kernels when it builds its graph."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import tensorflow as tf

import psclust
from psclust.replication import kernels
from psclust.replication.wire.own_wire import allowed_wire
from psclust.runtime.kernel_library import wanted
from psclust.spec.cluster import ClusterSpec, Task
from psclust.spec.tensorflow_builds import LIBRARY, build_of, result_file
from psclust.train.placed_graph import choose_kernels
from psclust.train.task_context import TaskContext

pytestmark = pytest.mark.tensorflow
NATIVE = Path(psclust.__file__).parent / "native"
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


def test_the_chief_says_that_a_build_was_not_tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if wanted() is None:
        pytest.skip("psclust was installed without a C compiler")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copy(next(NATIVE.glob("_kernels.*so")), tmp_path / LIBRARY)
    with caplog.at_level("INFO", logger="psclust"), tf.Graph().as_default():
        choose_kernels(TaskContext(Task("worker", 0), CLUSTER), "int8", None, str(tmp_path))
    assert len(caplog.records) == 1
    assert "were not tested with this build of TensorFlow" in caplog.text
    assert "the next run tests them again" in caplog.text


def test_the_chief_says_that_kernels_fit_but_the_wire_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if kernels.loaded() is None:
        pytest.skip("psclust was installed without a C compiler")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # A build that nobody knows, and what its test has found.
    shutil.copy(next(NATIVE.glob("_kernels.*so")), tmp_path / LIBRARY)
    build = build_of(str(tmp_path / LIBRARY))
    assert build is not None
    kept = Path(result_file(build, str(tmp_path / "cache" / "psclust")))
    kept.parent.mkdir(parents=True)
    kept.write_text("kernels")
    context = TaskContext(Task("worker", 0), CLUSTER)
    with caplog.at_level("INFO", logger="psclust"), tf.Graph().as_default() as graph:
        choose_kernels(context, "float32", SimpleNamespace(), str(tmp_path))
        assert kernels.in_use() is not None
        assert allowed_wire(graph) is None
    assert len(caplog.records) == 1
    assert "psclust's own wire does not fit this build of TensorFlow" in caplog.text
