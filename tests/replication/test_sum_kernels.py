"""Sums of gradients by psclust's own kernels: the values of TensorFlow's ops, and whose memory they
use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from psclust.replication import gradients, kernels
from psclust.replication.gradients import scaled_sum
from psclust.replication.wire import eight_bits

pytestmark = pytest.mark.tensorflow

FACTOR = 1 / 3


@pytest.fixture
def session() -> Iterator[tf.compat.v1.Session]:
    """Of a graph that uses them."""
    with tf.Graph().as_default():
        kernels.use()
        with tf.compat.v1.Session() as made:
            yield made


def _values(shape: Sequence[int], count: int) -> list[Any]:
    return [
        np.random.default_rng(seed).normal(size=shape).astype(np.float32) for seed in range(count)
    ]


def _types() -> set[str]:
    return {operation.type for operation in tf.compat.v1.get_default_graph().get_operations()}


@pytest.mark.parametrize(
    "shape", [(), (0,), (1,), (3, 5), (2047,), (2048,), (2, 2049), (7, 11, 101)], ids=str
)
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_the_sum_is_the_same(session: Any, shape: tuple[int, ...], count: int) -> None:
    values = _values(shape, count)
    sums = scaled_sum([tf.constant(each) for each in values], tf.constant(FACTOR, tf.float64))
    assert sums.op.type == "PsclustScaledSum"
    assert sums.shape == shape
    expected = values[0]
    for each in values[1:]:
        expected = expected + each
    np.testing.assert_array_equal(session.run(sums), expected * np.float32(FACTOR))


def test_values_that_something_else_uses_stay_as_they_are(session: Any) -> None:
    one, other = (tf.compat.v1.placeholder(tf.float32, [4000]) for _ in range(2))
    made = tf.sqrt(one)
    twice = scaled_sum([made, made, other], tf.constant(2.0))
    again = scaled_sum([made], tf.constant(1.0))
    four, ones = np.full(4000, 4, np.float32), np.ones(4000, np.float32)
    for _ in range(3):
        first, second, third = session.run([twice, again, made], {one: four, other: ones})
        np.testing.assert_array_equal(first, np.full(4000, 10, np.float32))
        np.testing.assert_array_equal(second, third)
        np.testing.assert_array_equal(third, np.full(4000, 2, np.float32))
    np.testing.assert_array_equal(four, np.full(4000, 4, np.float32))


def test_results_take_the_memory_of_values_that_nothing_else_uses(session: Any) -> None:
    one, other = (tf.compat.v1.placeholder(tf.float32, [5000]) for _ in range(2))
    total = scaled_sum([tf.sin(one), tf.cos(other)], tf.constant(2.0))
    _, kept = eight_bits.encode_sum(tf.tan(one), other)
    trace = tf.compat.v1.RunMetadata()
    options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)
    fed = dict(zip((one, other), _values([5000], 2), strict=True))
    session.run(
        [tf.reduce_sum(total), tf.reduce_sum(kept)], fed, options=options, run_metadata=trace
    )
    nodes = {
        node.node_name: node for device in trace.step_stats.dev_stats for node in device.node_stats
    }

    def memory(name: str, output: int = 0) -> int:
        return int(nodes[name].output[output].tensor_description.allocation_description.ptr)

    assert memory("PsclustScaledSum") == memory("Sin")
    assert memory("PsclustEncode", 1) == memory("Tan")


def test_values_of_other_types_and_sparse_and_large_ones_are_for_the_ops_of_tensorflow(
    session: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(gradients, "_LARGEST_BYTES", 4000)
    doubles = [tf.constant(each, tf.float64) for each in _values([10], 2)]
    sparse = tf.IndexedSlices(tf.ones([1, 4]), tf.constant([2]), tf.constant([9, 4]))
    large = [tf.constant(each) for each in _values([1001], 2)]
    mixed = [sparse, tf.ones([9, 4])]
    found = session.run(
        [
            scaled_sum(each, tf.constant(0.5, tf.float64))
            for each in (doubles, [sparse, sparse], large, mixed)
        ]
    )
    assert not {kind for kind in _types() if kind.startswith("Psclust")}
    np.testing.assert_allclose(found[0], sum(_values([10], 2)) * 0.5, rtol=1e-6)
    np.testing.assert_array_equal(found[1].values, np.full([2, 4], 0.5))
    np.testing.assert_array_equal(found[2], sum(_values([1001], 2)) * np.float32(0.5))
    np.testing.assert_array_equal(found[3][2], np.full(4, 1.0))
    scaled_sum([tf.constant(each) for each in _values([1000], 2)], tf.constant(0.5))
    assert "PsclustScaledSum" in _types()


@pytest.mark.parametrize("sizes", [(3, 4), (4, 3)])
def test_values_of_different_sizes_are_refused(session: Any, sizes: tuple[int, int]) -> None:
    ops = kernels.loaded()
    values = [tf.zeros([size]) for size in sizes]
    with pytest.raises(tf.errors.InvalidArgumentError, match="values differ in size"):
        session.run(ops.psclust_scaled_sum(values, tf.constant(1.0)))
    with pytest.raises(tf.errors.InvalidArgumentError, match="factor is not one value"):
        session.run(ops.psclust_scaled_sum(values[:1], tf.ones([2])))
    with pytest.raises(tf.errors.InvalidArgumentError, match="values differ in size"):
        session.run(ops.psclust_descent(values[:1], tf.constant(1.0), values[1]))
