"""The skip-gram example: held-out text is told better than by frequency, from whole tables and from
tables in shards."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from psclust.examples.skip_gram import program, vocabulary
from psclust.replication.dry_build import dry_build

pytestmark = [pytest.mark.tensorflow]


@pytest.mark.long
def test_words_tell_their_neighbours(train_example: Callable[..., Any], tmp_path: Path) -> None:
    metrics = train_example("skip_gram", epochs=3)
    # Without training every word is as likely as any other.
    untrained = math.log(len(vocabulary()[0]))
    assert metrics["loss"] < metrics["by_frequency"] - 0.1 < untrained
    nearest = {
        row["word"].decode(): [word.decode() for word in row["nearest"]]
        for row in program.predict(tmp_path / "model")
    }
    assert len(nearest) == 200
    assert all(len(set(words) | {word}) == 6 for word, words in nearest.items())
    assert set(nearest["can"]) & {"may", "cannot", "will", "must", "should", "would"}


@pytest.mark.process
@pytest.mark.long
def test_workers_that_do_not_wait_train_tables_in_shards(up_example: Callable[..., Any]) -> None:
    ran = up_example("skip-gram", "--set", "epochs=2")
    assert ran.metrics["loss"] < ran.metrics["by_frequency"] - 0.1
    # In the checkpoint the shards are one table.
    assert (
        tf.train.load_checkpoint(str(ran.model_dir)).get_variable_to_shape_map()["vectors"][1] == 32
    )


def test_a_step_pulls_rows_and_its_gradients_are_sparse() -> None:
    assert [(v.name, v.sparse) for v in dry_build(program)] == [
        ("vectors", True),
        ("weights", True),
        ("biases", True),
    ]
