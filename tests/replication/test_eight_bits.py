"""Values as int8 with a scale for each block: what arrives of them, and what a worker keeps of a
gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from psclust.replication import kernels
from psclust.replication.wire import eight_bits

pytestmark = pytest.mark.tensorflow


def _there_and_back(values: Any) -> tuple[Any, Any, Any]:
    """(the message, what the sender thinks arrives, what arrives), in the current graph."""
    with tf.compat.v1.Session() as session:
        sent = tf.constant(values, tf.float32)
        # What an empty copy has after the difference to it has arrived.
        message, arriving = eight_bits.encode_difference(sent, tf.zeros_like(sent))
        return tuple(session.run([message, arriving, eight_bits.decode(message, sent.shape)]))


@pytest.mark.parametrize(
    ("shape", "bytes_"),
    [
        ((2048,), 2048 + 2 * 4),
        ((7000, 250), 1_750_000 + 1750 * 4),
        ((101, 103), 11 * 1024 + 11 * 4),
        ((1023,), 1023 + 4),
        ((100, 100), 10_000 + 10 * 4),
    ],
)
@pytest.mark.usefixtures("graph")
def test_the_error_is_half_a_scale_at_most(shape: tuple[int, ...], bytes_: int) -> None:
    values = np.random.default_rng(1).normal(size=shape).astype(np.float32) * np.geomspace(
        1e-6, 1e6, shape[0]
    ).astype(np.float32).reshape([-1] + [1] * (len(shape) - 1))
    message, arriving, arrived = _there_and_back(values)
    assert message.nbytes == bytes_
    np.testing.assert_array_equal(arriving, arrived)
    # Of its own block, which is at most 1,024 values on either side.
    flat, error = np.abs(values).ravel(), np.abs(arrived - values).ravel()
    for index in range(0, flat.size, 97):
        near = flat[max(0, index - 1023) : index + 1024].max()
        assert error[index] <= near / 127 / 2 * (1 + 1e-5)


@pytest.mark.usefixtures("graph")
def test_the_largest_values_of_a_block_and_zeros_arrive_as_they_are() -> None:
    values = np.zeros(3 * 1024, np.float32)
    values[:1024] = np.where(np.arange(1024) % 2, 3.7, -3.7)
    values[1024:2048] = np.arange(1024) % 128
    np.testing.assert_allclose(_there_and_back(values)[2], values, rtol=1e-6)


@pytest.mark.usefixtures("graph")
@pytest.mark.parametrize("tiny", [1e-38, 1e-42, 1.2e-38 * 127])
def test_values_too_small_for_a_scale_arrive_as_zeros(tiny: float) -> None:
    np.testing.assert_array_equal(_there_and_back(np.full(1024, tiny))[2], np.zeros(1024))


@pytest.mark.usefixtures("graph")
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("position", [0, 1023, 1024, 4000])
def test_a_value_that_is_not_finite_is_seen_at_the_other_end(bad: float, position: int) -> None:
    values = np.ones(4096, np.float32)
    values[position] = bad
    _, _, arrived = _there_and_back(values)
    assert not np.isfinite(arrived[position])
    # The other blocks are as good as before.
    assert np.isfinite(arrived).sum() == 3072


@pytest.mark.usefixtures("graph")
def test_what_is_rounded_off_leaves_with_the_next_gradients() -> None:
    rng, shape = np.random.default_rng(3), [5, 1000]
    gradients = [rng.normal(size=shape).astype(np.float32) for _ in range(20)]
    with tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable("weights", shape)
        gradient = tf.compat.v1.placeholder(tf.float32, shape)
        sent = eight_bits.decode(
            eight_bits.encode_with_rest(gradient, variable, ""), gradient.shape
        )
        session.run(tf.compat.v1.local_variables_initializer())
        arrived = [session.run(sent, {gradient: value}) for value in gradients]
        (left,) = session.run(tf.compat.v1.local_variables())
    once = np.abs(arrived[0] - gradients[0]).max()
    assert 0 < np.abs(left).max() < 1.5 * once
    # Not more after twenty steps than after one, and exactly what is still to be sent.
    np.testing.assert_allclose(np.sum(arrived, 0) + left, np.sum(gradients, 0), atol=1e-4)


def _sum_and_difference(values: Any, base: Any) -> list[Any]:
    summed, left = eight_bits.encode_sum(tf.constant(values), tf.constant(base))
    changed, known = eight_bits.encode_difference(tf.constant(values), tf.constant(base))
    added = eight_bits.add(changed, tf.constant(base))
    with tf.compat.v1.Session() as session:
        return list(session.run([summed, left, changed, known, added]))


@pytest.mark.parametrize("shape", [(2048,), (333, 100), (11, 1021), (16385,)])
# Not so small that a thread of TensorFlow may take a value for zero.
@pytest.mark.parametrize("size", [1e-33, 1.0, 1e30])
def test_the_kernels_send_and_keep_what_the_ops_do_bit_for_bit(
    shape: tuple[int, ...], size: float
) -> None:
    rng = np.random.default_rng(5)
    values, base = (
        rng.normal(size=shape).astype(np.float32) * np.float32(scale)
        for scale in (size, size / 100)
    )
    # Halves of a scale, which are rounded to even, and a block of zeros.
    values.reshape(-1)[:256] = (np.arange(-128, 128) / 2 * size).astype(np.float32)
    values.reshape(-1)[1024:2048] = base.reshape(-1)[1024:2048] = 0
    with tf.Graph().as_default():
        ops = _sum_and_difference(values, base)
    with tf.Graph().as_default():
        kernels.use()
        fused = _sum_and_difference(values, base)
    for one, other in zip(ops, fused, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda ops: ops.psclust_encode(tf.ones([8]), tf.ones([9]), block=4, difference=False),
        lambda ops: ops.psclust_encode(tf.ones([8]), tf.ones([8]), block=1025, difference=False),
        lambda ops: ops.psclust_decode(tf.zeros([15], tf.int8), [], count=8, block=4),
        lambda ops: ops.psclust_decode(tf.zeros([16], tf.int8), [], count=-8, block=4),
        lambda ops: ops.psclust_decode(tf.zeros([16], tf.int8), [tf.ones([12])], count=12, block=4),
    ],
)
def test_a_kernel_refuses_what_does_not_fit(wrong: Callable[[Any], Any]) -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        made = wrong(kernels.loaded())
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(made)


def test_what_a_sender_keeps_takes_the_memory_of_a_value_that_nothing_else_uses() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        kernels.use()
        one, other = (tf.compat.v1.placeholder(tf.float32, [5000]) for _ in range(2))
        _, kept = eight_bits.encode_sum(tf.tan(one), other)
        trace = tf.compat.v1.RunMetadata()
        options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)
        fed = {one: np.ones(5000, np.float32), other: np.ones(5000, np.float32)}
        session.run(tf.reduce_sum(kept), fed, options=options, run_metadata=trace)
    nodes = {
        node.node_name: node for device in trace.step_stats.dev_stats for node in device.node_stats
    }

    def memory(name: str, output: int) -> int:
        return int(nodes[name].output[output].tensor_description.allocation_description.ptr)

    assert memory("PsclustEncode", 1) == memory("Tan", 0)
