"""What is wrong with a program or its data is one clear sentence, in every way of training; nobody
hangs, and the last good checkpoint stays."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bad_data
import bad_inputs
import mapped
import numpy as np
import pytest
import tensorflow as tf
import toys
from bad_inputs import PARAMS
from trained import read_checkpoint
from ways import ALONE, Start, Train

import psclust
from beds.tiers import longer
from psclust.errors import ModelError, NotFiniteError, PsclustError, UsageError
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.tensorflow


@dataclass(frozen=True)
class Mistake:
    """One of the program `bad_inputs`, and the sentence (a pattern) that it ends with. saved: there
    is a checkpoint to keep."""

    params: Mapping[str, Any]
    sentence: str
    error: type[PsclustError] = UsageError
    saved: bool = field(default=False, kw_only=True)


MISTAKES = {
    "a loss that is no scalar": Mistake(
        {"vector_loss": True},
        r"model_fn returned a loss of shape \(2,\); return a scalar, "
        r"for example tf\.reduce_mean\(loss\)",
    ),
    "labels of a wrong rank": Mistake(
        {"columns": 2},
        r"model_fn failed in mode 'train' at bad_inputs\.py:\d+ \(_model\): "
        r"`labels\.shape\.rank` must equal `logits\.shape\.rank - 1`\. .*; features: "
        r"float32 \(2,\), labels: float32 \(None, 2\)",
    ),
    "labels that turn out too long": Mistake(
        {"long_at": 12},
        r"model_fn failed on its data in \S+ at bad_inputs\.py:\d+ \(_model\): Incompatible "
        r"shapes: \[2\] vs\. \[3\]; "
        "look at the shapes and values of the batches",
        ModelError,
        saved=True,
    ),
    "a loss that is not finite": Mistake(
        {"nan_at": 12},
        r"step \d+: (the loss is nan|weight has values that are not finite, "
        r"and no checkpoint is written); lower the learning rate, .*",
        NotFiniteError,
        saved=True,
    ),
    "an empty dataset": Mistake(
        {"batches": 0},
        "the input( of worker:[01])? has no batch at all: input_fn returned an empty dataset, "
        "or there are fewer elements than replicas",
    ),
    "fewer elements than replicas": Mistake(
        {"batches": 1}, "the input of worker:1 has no batch at all: input_fn returned an empty .*"
    ),
    "a variable of one tower": Mistake(
        {"extra": True},
        r"model_fn asks for the variable extra at bad_inputs\.py:\d+ \(_model\), which the first "
        r"tower does not have; "
        "model_fn must create the same variables in every tower",
    ),
}
EVERYWHERE = list(MISTAKES)[:5]
IN_GRAPH = list(MISTAKES)


def _fails(
    train_here: Train,
    how: tuple[str | None, bool],
    error: type[PsclustError],
    params: Mapping[str, Any],
) -> str:
    """The sentence that training ends with."""
    replication, sync = how
    with pytest.raises(error) as caught:
        train_here(bad_inputs.program.with_params(params), replication, sync=sync, folder="model")
    assert type(caught.value) is error
    return str(caught.value)


def _check_kept(folder: Path) -> None:
    """The last checkpoint in `folder` is good, and older than the mistake."""
    latest = tf.train.latest_checkpoint(str(folder))
    assert latest is not None
    reader = tf.train.load_checkpoint(latest)
    assert int(reader.get_tensor("global_step")) <= 12 + PARAMS["batches"] // 2
    assert np.isfinite(reader.get_tensor("weight"))


@pytest.mark.parametrize(
    ("how", "name"),
    [
        *((ALONE, name) for name in EVERYWHERE),
        *((("in-graph", True), name) for name in IN_GRAPH[len(EVERYWHERE) :]),
        *longer(*((("in-graph", True), name) for name in EVERYWHERE)),
        *longer(*((("in-graph", False), name) for name in IN_GRAPH)),
    ],
)
def test_a_mistake_is_one_sentence_where_there_is_one_client(
    train_here: Train, tmp_path: Path, how: tuple[str | None, bool], name: str
) -> None:
    mistake = MISTAKES[name]
    found = _fails(train_here, how, mistake.error, mistake.params)
    assert re.fullmatch(mistake.sentence, found), found
    if mistake.saved:
        _check_kept(tmp_path / "model")


@pytest.mark.parametrize("first", ["the lookup", "the update"])
def test_an_id_that_a_table_does_not_have_is_named_with_the_line_that_looks_it_up(
    train_here: Train, first: str
) -> None:
    def model(features: Any) -> psclust.EstimatorSpec:
        table = tf.compat.v1.get_variable("table", [300, 64])
        never = [tf.queue.FIFOQueue(1, tf.int32).dequeue()] if first == "the update" else []
        with tf.control_dependencies(never):
            rows = tf.nn.embedding_lookup(table, features, name="words")
        # The gradient of a sum does not depend on what is looked up, so the update need not wait
        # for it.
        loss = tf.reduce_sum(rows if first == "the update" else tf.square(rows))
        return psclust.EstimatorSpec("train", loss=loss)

    def data() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensors(tf.constant([3, 3, 300], tf.int64)).repeat(10)

    optimizer = lambda: tf.compat.v1.train.AdamOptimizer(0.1)  # noqa: E731
    # The op that fails is psclust's.
    program = psclust.Program(
        model, data, optimizer, config=psclust.TrainConfig(wire_dtype="bfloat16")
    )
    place = r"model_fn failed on its data in tower_\d/words at test_bad_input\.py:\d+ \(model\)"
    with pytest.raises(
        ModelError, match=place + r": indices\[\d\] = 300 is not in \[0, 300\); look at .*"
    ):
        train_here(program, "in-graph", sync=True, here=True)


UNREADABLE = {
    "no file": "/no/such/file; No such file or directory; a task reads its data on its own host",
    "another kind of file": r"corrupted record at 0 .*; the file is damaged, or of another kind .*",
    "a generator that fails": r"ValueError: bad line 17; look at .*",
    "a record that is none": r".*Could not parse example input, value: 'no example'; look at .*",
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_data_that_cannot_be_read_is_one_sentence(train_here: Train, name: str) -> None:
    place = (
        r" in PyFunc at bad_data\.py:\d+ \(_generated\)" if "generator" in name else r"( in \S+)?"
    )
    with pytest.raises(ModelError) as caught:
        train_here(mapped.program(bad_data.INPUTS[name], parts=False))
    assert re.fullmatch(
        f"input_fn failed on its data{place}: {UNREADABLE[name]}", str(caught.value)
    )


@pytest.mark.process
@pytest.mark.parametrize("replication", ["between-graph", *longer("in-graph")])
def test_a_file_that_a_worker_lacks_is_one_sentence(processes: Start, replication: str) -> None:
    cluster = processes(replication, False, "bad_data:no_file", ps=1)
    client = "worker:0" if replication == "between-graph" else "client:0"
    code = wait_until(lambda: cluster.clients[client].exitcode, what=f"the end of {client}")
    assert code == ModelError.exit_code
    assert re.search(
        f"input_fn failed on its data on worker:[01]: {UNREADABLE['no file']}", cluster.log(client)
    )
    assert "Traceback" not in cluster.log(client)


@pytest.mark.process
@pytest.mark.parametrize(
    ("sync", "name"),
    [
        (True, "labels that turn out too long"),
        (True, "a loss that is not finite"),
        *longer((False, "a loss that is not finite"), (False, "fewer elements than replicas")),
    ],
)
def test_the_worker_that_meets_a_mistake_ends_with_its_sentence(
    processes: Start, sync: bool, name: str
) -> None:
    mistake = MISTAKES[name]
    cluster = processes("between-graph", sync, "bad_inputs:program", ps=1, **mistake.params)
    worker = cluster.clients["worker:1"]
    code = wait_until(lambda: worker.exitcode, what="the end of worker:1")
    lines = [line for line in cluster.log("worker:1").splitlines() if "0000 00" not in line]
    assert code == mistake.error.exit_code, lines
    assert re.fullmatch(mistake.sentence, lines[-1]), lines
    assert "Traceback" not in cluster.log("worker:1")
    if mistake.saved:
        _check_kept(cluster.folder / "model")


@pytest.mark.parametrize("how", [ALONE, ("in-graph", True)])
def test_the_checkpoint_of_another_model_is_refused_and_stays(
    train_here: Train, tmp_path: Path, how: tuple[str | None, bool]
) -> None:
    before = train_here(toys.tally, folder="model", max_steps=3)
    found = _fails(train_here, how, PsclustError, {})
    assert re.fullmatch(
        r".*model\.ckpt-3 is the checkpoint of another model: weight is missing\. "
        r"Choose another --model-dir",
        found,
    )
    assert read_checkpoint(tmp_path / "model").step == before.step == 3


@pytest.mark.parametrize("how", [ALONE, ("in-graph", True), ("between-graph", False)])
def test_a_model_folder_that_cannot_be_is_refused_before_training(
    train_here: Train, tmp_path: Path, how: tuple[str | None, bool]
) -> None:
    (tmp_path / "model").write_text("in the way")
    found = _fails(train_here, how, PsclustError, {})
    assert re.fullmatch(
        r".*/model: checkpoints cannot be written there \(.*\); choose another --model-dir", found
    )
    assert (tmp_path / "model").read_text() == "in the way"
