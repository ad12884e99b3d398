"""What travels between workers and ps in the dtype of the wire: each value is cast once at each
end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tensorflow as tf

import psclust
from beds.graphs import build
from psclust.replication.tf_types import Graph, Operation

pytestmark = pytest.mark.tensorflow

LAYERS = 7


def _model(features: object) -> psclust.EstimatorSpec:
    x = features
    for layer in range(LAYERS):
        x = tf.matmul(x, tf.compat.v1.get_variable(f"layer{layer}", [100, 100]))
        x = tf.nn.relu(x + tf.compat.v1.get_variable(f"bias{layer}", [100]))
    return psclust.EstimatorSpec("train", loss=tf.reduce_mean(x))


def _rows(features: object) -> psclust.EstimatorSpec:
    table = tf.compat.v1.get_variable("table", [1000, 8])
    ids = tf.cast(features[0], tf.int32)
    # TensorFlow gives the first gather the device of the worker, the second one that of the table.
    return psclust.EstimatorSpec(
        "train",
        loss=tf.reduce_sum(tf.gather(table, ids))
        + tf.reduce_sum(tf.nn.embedding_lookup(table, ids)),
    )


def _build(
    how: str, wire_dtype: str = "float32", model: Callable[..., psclust.EstimatorSpec] = _model
) -> Graph:
    program = psclust.Program(
        model,
        lambda: tf.data.Dataset.from_tensors(tf.ones([4, 100])).repeat(),
        lambda: tf.compat.v1.train.GradientDescentOptimizer(0.1),
        config=psclust.TrainConfig(wire_dtype=wire_dtype),
    )
    with tf.Graph().as_default() as graph:
        build(program, how)
    return graph


@pytest.mark.parametrize("how", ["in-graph sync", "between-graph async", "between-graph sync"])
def test_what_travels_as_bfloat16_is_cast_once_at_each_end(how: str) -> None:
    workers = 2 if how.startswith("in-graph") else 1
    casts = _casts(_build(how, "bfloat16"))
    leaving, arrived = (
        [op for op in casts if op.outputs[0].dtype == dtype] for dtype in (tf.bfloat16, tf.float32)
    )
    # The value of a layer leaves its ps once for all workers, and the biases, all on one ps, in a
    # bucket for each; then the gradients.
    assert sum(op.device.startswith("/job:ps") for op in leaving) == LAYERS + workers
    assert sum(op.device.startswith("/job:worker") for op in leaving) == workers * (LAYERS + 1)
    assert {tuple(op.outputs[0].shape) for op in leaving} == {(100, 100), (LAYERS * 100,)}
    for op in leaving:
        users = [user for user in op.outputs[0].consumers()]
        assert len({user.device for user in users}) == len(users)
        assert all(
            user.device.partition("/task")[0] != op.device.partition("/task")[0] for user in users
        )
    assert len(arrived) == sum(len(op.outputs[0].consumers()) for op in leaving)


def test_rows_of_a_table_are_cast_on_its_ps() -> None:
    leaving = [
        op
        for op in _casts(_build("between-graph async", "bfloat16", _rows))
        if op.outputs[0].dtype == tf.bfloat16
    ]
    places = [op.device.partition("/task")[0] for op in leaving]
    # Two gathers, and the gradient of all rows.
    assert sorted(places) == ["/job:ps", "/job:ps", "/job:worker"]
    of_ps = [op for op in leaving if op.device.startswith("/job:ps")]
    assert [op.inputs[0].op.type for op in of_ps] == ["ResourceGather"] * 2


def test_nothing_is_cast_to_travel_as_it_is() -> None:
    assert not _casts(_build("in-graph sync"))


def _casts(graph: Graph) -> list[Operation]:
    return [
        op
        for op in graph.get_operations()
        if op.type == "Cast" and tf.bfloat16 in (op.inputs[0].dtype, op.outputs[0].dtype)
    ]
