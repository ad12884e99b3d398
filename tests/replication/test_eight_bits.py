"""Values as int8 with a scale for each block: what arrives of them, and what a worker keeps of a gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from psclust.replication.wire import eight_bits

pytestmark = pytest.mark.tensorflow


def _there_and_back(values: Any) -> tuple[Any, Any, Any]:
    """(the message, what the sender thinks arrives, what arrives)."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        message, arriving = eight_bits.encode(tf.constant(values, tf.float32))
        return tuple(session.run([message, arriving, eight_bits.decode(message, arriving.shape)]))


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
def test_the_error_is_half_a_scale_at_most(shape: tuple[int, ...], bytes_: int) -> None:
    values = np.random.default_rng(1).normal(size=shape).astype(np.float32) * np.geomspace(1e-6, 1e6, shape[0]).astype(np.float32).reshape(
        [-1] + [1] * (len(shape) - 1)
    )
    message, arriving, arrived = _there_and_back(values)
    assert message.nbytes == bytes_
    np.testing.assert_array_equal(arriving, arrived)
    # Of its own block, which is at most 1,024 values on either side.
    flat, error = np.abs(values).ravel(), np.abs(arrived - values).ravel()
    for index in range(0, flat.size, 97):
        near = flat[max(0, index - 1023) : index + 1024].max()
        assert error[index] <= near / 127 / 2 * (1 + 1e-5)


def test_the_largest_values_of_a_block_and_zeros_arrive_as_they_are() -> None:
    values = np.zeros(3 * 1024, np.float32)
    values[:1024] = np.where(np.arange(1024) % 2, 3.7, -3.7)
    values[1024:2048] = np.arange(1024) % 128
    np.testing.assert_allclose(_there_and_back(values)[2], values, rtol=1e-6)


@pytest.mark.parametrize("tiny", [1e-38, 1e-42, 1.2e-38 * 127])
def test_values_too_small_for_a_scale_arrive_as_zeros(tiny: float) -> None:
    np.testing.assert_array_equal(_there_and_back(np.full(1024, tiny))[2], np.zeros(1024))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("position", [0, 1023, 1024, 4000])
def test_a_value_that_is_not_finite_is_seen_at_the_other_end(bad: float, position: int) -> None:
    values = np.ones(4096, np.float32)
    values[position] = bad
    _, _, arrived = _there_and_back(values)
    assert not np.isfinite(arrived[position])
    # The other blocks are as good as before.
    assert np.isfinite(arrived).sum() == 3072


def test_what_is_rounded_off_leaves_with_the_next_gradients() -> None:
    rng, shape = np.random.default_rng(3), [5, 1000]
    gradients = [rng.normal(size=shape).astype(np.float32) for _ in range(20)]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable("weights", shape)
        gradient = tf.compat.v1.placeholder(tf.float32, shape)
        sent = eight_bits.decode(eight_bits.encode_with_rest(gradient, variable, ""), gradient.shape)
        session.run(tf.compat.v1.local_variables_initializer())
        arrived = [session.run(sent, {gradient: value}) for value in gradients]
        (left,) = session.run(tf.compat.v1.local_variables())
    once = np.abs(arrived[0] - gradients[0]).max()
    assert 0 < np.abs(left).max() < 1.5 * once
    # Not more after twenty steps than after one, and exactly what is still to be sent.
    np.testing.assert_allclose(np.sum(arrived, 0) + left, np.sum(gradients, 0), atol=1e-4)
