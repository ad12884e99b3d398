"""Comparisons of tensors by `==` in a user's functions are named, once, with their line."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import psclust

pytestmark = pytest.mark.tensorflow

MODEL = """
def model_fn(features, mode):
    results.append({comparison})
    return psclust.EstimatorSpec(mode, loss=tf.constant(0.0))
"""


def model_of(
    comparison: str, results: list[Any], file: str = "/home/u/prog.py"
) -> Callable[..., Any]:
    names: dict[str, Any] = {"tf": tf, "np": np, "psclust": psclust, "results": results}
    exec(compile(MODEL.format(comparison=comparison), file, "exec"), names)
    return names["model_fn"]  # type: ignore[no-any-return]


def built(model_fn: Callable[..., Any], times: int = 1) -> None:
    program = psclust.Program(model_fn, lambda: None)
    with tf.Graph().as_default():
        for _ in range(times):
            program.spec(tf.constant([1, 2]), None, "train")


@pytest.fixture(autouse=True)
def _warnings(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.WARNING, "psclust"):
        yield


def test_a_comparison_in_what_makes_the_requests_is_named(caplog: pytest.LogCaptureFixture) -> None:
    program = psclust.Program(lambda: None, lambda: None)
    with tf.Graph().as_default():
        program.receiver(lambda params: tf.constant([1, 2]) == tf.constant([1, 2]))
    assert "compares tensors as objects" in caplog.text


VARIABLE = "tf.compat.v1.get_variable('v', [2], use_resource=True)"
COMPARED = {
    "features == tf.constant([1, 2])": False,
    "features == 1": False,
    "1 == features": False,
    "features != 1": True,
    "features == np.array([1, 2])": False,
    "features == np.float32(1)": False,
    "features == [1, 2]": False,
    "features == features": True,
    f"{VARIABLE} == 1.0": False,
    f"{VARIABLE} != 1.0": True,
    "tf.constant('a') == 'a'": False,
    "tf.ragged.constant([[1], []]) == 1": False,
}


@pytest.mark.parametrize("comparison", COMPARED)
def test_a_comparison_is_named_with_its_line_and_gives_what_it_gave(
    comparison: str, caplog: pytest.LogCaptureFixture
) -> None:
    results: list[Any] = []
    built(model_of(comparison, results))
    gives = COMPARED[comparison]
    operator, function = ("!=", "tf.not_equal") if "!=" in comparison else ("==", "tf.equal")
    sentence = (
        f"`{operator}` compares tensors as objects, "
        f"so it is {gives} whatever they hold; write {function}"
    )
    assert caplog.messages == [f"prog.py:3 (model_fn): {sentence}"]
    assert results == [gives]


@pytest.mark.parametrize(
    "comparison",
    [
        "tf.equal(features, 1)",
        "features in [tf.constant(1)]",
        "{features: 1}.get(tf.constant(1))",
        "features == None",
        "features != None",
        "features == 'auto'",
        "features is features",
        "features.dtype == tf.int32",
        "features.shape == [2]",
        "mode == 'train'",
        "tf.sparse.from_dense([[1]]) == None",
    ],
)
def test_what_means_objects_or_compares_values_is_not(
    comparison: str, caplog: pytest.LogCaptureFixture
) -> None:
    built(model_of(comparison, []))
    assert caplog.messages == []


@pytest.mark.parametrize("library", [tf.__file__, psclust.schedules.__file__, "<string>"])
def test_a_comparison_in_a_library_is_not(library: str, caplog: pytest.LogCaptureFixture) -> None:
    built(model_of("features == 1", [], library))
    assert caplog.messages == []


def test_a_line_that_several_towers_run_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    built(model_of("features == 1", []), times=3)
    assert len(caplog.messages) == 1


def test_comparisons_are_tensorflows_again_afterwards() -> None:
    def operators() -> list[Any]:
        kinds = (tf.Tensor, tf.Variable, tf.RaggedTensor)
        return [vars(kind)[name] for kind in kinds for name in ("__eq__", "__ne__")]

    before = operators()
    with pytest.raises(ZeroDivisionError):
        built(model_of("1 / 0", []))
    assert operators() == before
    assert bool(tf.reduce_all(tf.constant([1, 2]) == tf.constant([1, 2])))


def test_a_function_that_a_dataset_maps_and_an_optimizers_are_named_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def is_one(element: Any) -> Any:
        return tf.cast(element == 1, tf.int32)

    def input_fn() -> Any:
        return tf.data.Dataset.range(4).map(is_one)

    def optimizer_fn(global_step: Any) -> Any:
        return tf.compat.v1.train.GradientDescentOptimizer(tf.where(global_step == 1, 0.1, 0.2))

    program = psclust.Program(model_of("features", []), input_fn, optimizer_fn)
    with tf.Graph().as_default():
        program.dataset("train", psclust.Shard())
        program.optimizer(tf.compat.v1.train.get_or_create_global_step())
    first = input_fn.__code__.co_firstlineno
    places = [message.partition(": ")[0] for message in caplog.messages]
    assert places == [
        f"{__file__.rpartition('/')[2]}:{line} ({name})"
        for line, name in ((first + 1, "is_one"), (first + 4, "optimizer_fn"))
    ]
