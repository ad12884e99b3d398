"""Mistakes in functions that a dataset maps, and what AutoGraph converts of them."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mapped
import pytest
import tensorflow as tf

import psclust
from beds.graphs import build
from psclust.errors import UsageError

pytestmark = pytest.mark.tensorflow

PARTS = pytest.mark.parametrize("parts", [False, True])


def dataset(input_fn: Callable[..., Any], parts: bool) -> Any:
    with tf.Graph().as_default():
        return mapped.program(input_fn, parts=parts).dataset("train", psclust.Shard())


@PARTS
def test_a_mistake_is_one_sentence_with_its_line(parts: bool) -> None:
    sentence = (
        r"input_fn failed in mode 'train' at mapped\.py:\d+ \(_matrices\): Dimensions must be "
        r"equal, but are 2 and 3 for .*"
    )
    with pytest.raises(UsageError) as caught:
        dataset(mapped.fails, parts)
    caught.match(f"^{sentence}$")
    line = str(caught.value).partition("mapped.py:")[2].partition(" ")[0]
    source = Path(mapped.__file__).read_text().splitlines()
    assert "tf.matmul" in source[int(line) - 1]


@PARTS
def test_a_mistake_in_a_lambda_is_one_too(parts: bool) -> None:
    # The line of a lambda in a function that is converted itself is that of the function.
    name = "fails_in_place" if parts else "<lambda>"
    with pytest.raises(UsageError, match=rf"^input_fn failed .* at mapped\.py:\d+ \({name}\): "):
        dataset(mapped.fails_in_place, parts)


@PARTS
def test_an_error_of_the_users_own_passes(parts: bool) -> None:
    with pytest.raises(ValueError, match="not these numbers") as caught:
        dataset(mapped.refuses, parts)
    assert not isinstance(caught.value, UsageError)


def test_a_part_that_is_no_dataset_is_one_sentence() -> None:
    with pytest.raises(UsageError, match=r"^input_fn returned a list; return a tf\.data\.Dataset "):
        dataset(mapped.no_dataset, True)


def test_a_part_may_have_an_if_of_tensors() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        data = mapped.program(mapped.branches, parts=True).dataset("train", psclust.Shard())
        following = tf.compat.v1.data.make_one_shot_iterator(data).get_next()
        read = [session.run(following).tolist() for _ in range(8)]
    # Numbers up to 6, of the second part 8 to 14; the sums of two that are over 5 are halved.
    assert read == [[0, 1], [2, 3], [2, 2], [3], [4, 4], [5, 5], [6, 6], [7]]


@PARTS
def test_a_comparison_is_named(parts: bool, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "psclust"):
        dataset(mapped.compares, parts)
    place = "<lambda>" if parts else "mapped.py:"
    assert [text.startswith(place) for text in caplog.messages] == [True]
    assert "`==` compares tensors as objects" in caplog.text


def _converted() -> None:
    program = mapped.program(mapped.branches, parts=True).with_config(["handed_out=true"])
    with tf.Graph().as_default():
        build(program, "between-graph sync")
    print(sum(name.startswith("__autograph_generated_file") for name in sys.modules))


@pytest.mark.long
def test_of_psclusts_own_functions_only_one_is_converted() -> None:
    """A second of each start of a worker went there."""
    code = f"import sys; sys.path[:0] = {sys.path!r}; import {__name__} as me; me._converted()"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    # And two of the user's.
    assert int(done.stdout.split()[-1]) == 1 + 2
