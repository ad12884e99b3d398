"""Checkpoints: exact resumption, across every change of cluster, and what is left when one cannot
be written."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
import toys
from trained import near, read_checkpoint
from ways import Train

import psclust
from psclust.errors import PsclustError
from psclust.train.checkpoints.checkpoint_folder import CheckpointFolder
from psclust.train.checkpoints.patience import patiently
from psclust.train.session import system_reason

pytestmark = pytest.mark.tensorflow


def _line(optimizer: str = "AdamOptimizer", **config: Any) -> Any:
    return replace(
        toys.line.with_params({"optimizer": optimizer, "batch": 4}),
        config=psclust.TrainConfig(**config),
        seed=3,
    )


def _shuffled(**config: Any) -> Any:
    """Forty batches in random order, the same in every process."""
    program = _line(**config)
    return replace(
        program,
        input_fn=lambda params: (
            toys.line.input_fn("train", params, toys.psclust.Shard()).repeat(3).shuffle(9, seed=5)
        ),
    )


def test_forty_steps_are_twenty_and_twenty_more(tmp_path: Path) -> None:
    program = _shuffled()
    assert program.train(tmp_path / "at once", max_steps=40) == 40
    assert program.train(tmp_path / "in two", max_steps=20) == 20
    assert program.train(tmp_path / "in two", max_steps=40) == 40
    once, twice = (read_checkpoint(tmp_path / name) for name in ("at once", "in two"))
    assert set(once.values) == set(twice.values)
    near(once, twice, *once.values, rtol=0, atol=0)
    assert once.values["weights/Adam"].any()


@pytest.mark.parametrize("sharded", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_training_goes_on_in_another_kind_of_cluster(train_here: Train, sharded: bool) -> None:
    program = _line(sharded=sharded)
    expected = train_here(program, None)
    train_here(program, "in-graph", sync=True, ps=2, folder="moved", max_steps=10)
    trained = train_here(program, "between-graph", sync=True, ps=3, folder="moved")
    assert trained.step == expected.step == 25
    near(expected, trained, "weights", "words", "bias", "weights/Adam", "weights/Adam_1")
    near(expected, trained, "beta1_power")


def _partitioned(shards: int) -> Any:
    """An embedding table cut into `shards` parts, some of whose rows every step moves towards 1,
    with momentum."""
    v1 = tf.compat.v1

    def model_fn(features: Any) -> Any:
        cut = v1.fixed_size_partitioner(shards) if shards > 1 else None
        with v1.variable_scope("deep", partitioner=cut):
            table = v1.get_variable("table", [10, 2], initializer=v1.zeros_initializer())
        rows = v1.nn.embedding_lookup(table, features, partition_strategy="div")
        return psclust.EstimatorSpec("train", loss=tf.reduce_sum((rows - 1.0) ** 2))

    def input_fn() -> Any:
        return tf.data.Dataset.range(40).map(lambda x: [x % 10, (x * 3) % 10])

    return psclust.Program(model_fn, input_fn, lambda: v1.train.MomentumOptimizer(0.1, 0.9))


@pytest.mark.long
@pytest.mark.parametrize("sharded", [False, True])
def test_a_table_may_be_cut_another_way_when_it_is_restored(
    train_here: Train, sharded: bool
) -> None:
    config = psclust.TrainConfig(sharded=sharded)
    expected = train_here(_partitioned(1), None)
    for shards, ps, steps in ((3, 2, 10), (1, 2, 20), (4, 3, 30), (2, 2, 40)):
        trained = train_here(
            replace(_partitioned(shards), config=config),
            "in-graph",
            sync=True,
            workers=1,
            ps=ps,
            folder="cut",
            max_steps=steps,
        )
        assert trained.step == steps
    assert set(trained.values) == set(expected.values)
    near(expected, trained, "deep/table", "deep/table/Momentum", rtol=1e-5, atol=0)


def test_tensorflows_own_saver_reads_a_checkpoint(tmp_path: Path) -> None:
    v1 = tf.compat.v1
    _partitioned(3).train(tmp_path, max_steps=5)
    table = read_checkpoint(tmp_path).values["deep/table"]
    with tf.Graph().as_default(), v1.Session() as session:
        whole = v1.get_variable("deep/table", [10, 2])
        with v1.variable_scope("deep", partitioner=v1.fixed_size_partitioner(4)):
            parts = v1.get_variable("table_in_parts", [10, 2])
        for variables in (whole, list(parts)):
            saver = v1.train.Saver({"deep/table": variables})
            saver.restore(session, v1.train.latest_checkpoint(str(tmp_path)))
        assert (
            session.run(whole).tolist()
            == session.run(tf.convert_to_tensor(parts)).tolist()
            == table.tolist()
        )


def test_a_partitioned_model_is_predicted_with_uncut(tmp_path: Path) -> None:
    _partitioned(3).train(tmp_path, max_steps=5)

    def model_fn(features: Any) -> Any:
        table = tf.compat.v1.get_variable("deep/table", [10, 2])
        return psclust.EstimatorSpec("infer", predictions=tf.gather(table, features))

    program = psclust.Program(
        model_fn, lambda: None, predict_input_fn=lambda: tf.data.Dataset.range(10).batch(10)
    )
    assert len(list(program.predict(tmp_path))) == 10


def _steps(folder: Path) -> list[int]:
    return sorted(
        int(path.name.removeprefix("model.ckpt-").removesuffix(".index"))
        for path in folder.glob("*.index")
    )


def test_checkpoints_come_every_so_many_steps_and_the_last_ones_stay(tmp_path: Path) -> None:
    _line(save_steps=5, keep=3).train(tmp_path)
    assert _steps(tmp_path) == [15, 20, 25]
    _line(save_steps=None, save_seconds=None).train(tmp_path / "last")
    assert _steps(tmp_path / "last") == [0, 25]


def test_one_for_every_so_many_seconds_stays_for_good(tmp_path: Path) -> None:
    times = iter([100.0, 130.0, 155.0, 170.0, 215.0, 220.0, 290.0])
    folder = CheckpointFolder(tmp_path, keep=2, keep_every_s=50.0, clock=lambda: next(times))
    for step in range(7):
        (tmp_path / f"model.ckpt-{step}.index").touch()
        folder.add(folder.prefix(step))
    # 100 begins; 155 is the first 50 s later, 215 the next; 220 and 290 are the last two.
    assert _steps(tmp_path) == [2, 4, 5, 6]
    assert [entry.step for entry in folder.listed()] == [5, 6]


@contextmanager
def _small_disk(folder: Path, size: str) -> Iterator[None]:
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_the_next_checkpoint_will_fill_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(patiently.__kwdefaults__, "patience_s", 1.0)

    def loss(features: Any) -> Any:
        return tf.reduce_mean(toys.zeros("weights", [1 << 18])) * features

    program = toys.repeated(loss, 1.0, 6, save_steps=2, save_seconds=None, keep=1)
    with _small_disk(tmp_path, "3m"):
        program.train(tmp_path, max_steps=4)
        assert "will not fit" not in caplog.text  # 1 MB each, of which one stays
        (tmp_path / "filler").write_bytes(bytes(1_500_000))
        with pytest.raises(PsclustError, match="No space left on device"):
            program.train(tmp_path, max_steps=6)
        assert _steps(tmp_path) == [4]
    told = [line for line in caplog.messages if "the next checkpoint will not fit" in line]
    assert len(told) == 1
    assert "kB are free, and the last one has 1.0 MB" in told[0]


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "model.ckpt-7.data-00000-of-00001.tempstate123").touch()
    (tmp_path / "model.ckpt-7_parts").mkdir()
    (tmp_path / "model.ckpt-7_parts" / "part-00000-of-00002.index").touch()
    (tmp_path / "model.ckpt-6.index").touch()
    _line().train(tmp_path, max_steps=1)
    assert _steps(tmp_path) == [0, 1, 6]
    assert not list(tmp_path.glob("model.ckpt-7*"))


@contextmanager
def _largest_file(size: int) -> Iterator[None]:
    """No file of this process may grow beyond `size` bytes: what a full disk looks like."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_keeps_the_last_good_checkpoint_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def loss(features: Any) -> Any:
        return tf.reduce_mean(toys.zeros("weights", [1 << 20])) * features

    program = toys.repeated(loss, 1.0, 5, save_steps=2, save_seconds=None)
    program.train(tmp_path, max_steps=1)
    with (
        _largest_file(1 << 20),
        pytest.raises(
            PsclustError,
            match=r"checkpoint of step 5 cannot be written \(File too large\); "
            r"the last good one is model.ckpt-1;",
        ),
    ):
        program.train(tmp_path)
    assert "the checkpoint of step 3 cannot be written" in caplog.text
    assert _steps(tmp_path) == [0, 1]
    assert not list(tmp_path.glob("*-3*"))
    assert program.train(tmp_path) == 5
    assert _steps(tmp_path) == [0, 1, 3, 5]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            "Node: 'checkpoint/SaveV2'\n/m/model.ckpt-0.tempstate1; No space left on device\n"
            "\t [[{{node SaveV2}}]]",
            "No space left on device",
        ),
        (
            "Graph execution error:\n\nFrom /job:ps/replica:0/task:1:\n"
            "/m/part-0; Disk quota exceeded",
            "Disk quota exceeded on ps:1",
        ),
        ("OOM when allocating tensor; too large", None),
    ],
)
def test_a_failure_to_write_is_told_in_the_systems_words(message: str, reason: str | None) -> None:
    assert system_reason(tf.errors.ResourceExhaustedError(None, None, message)) == reason
    assert system_reason(OSError(28, "No space left on device", "/m")) == "No space left on device"
