"""The session for what runs once before the first step, and the thread that builds the step
meanwhile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from psclust.replication.prepared_run import prepare
from psclust.spec.cluster import Task
from psclust.train.checkpoints.initializer import Initializer, Source
from psclust.train.session import open_setup
from psclust.train.task_context import TaskContext

pytestmark = pytest.mark.tensorflow

V1 = tf.compat.v1


class _NoCheckpoints:
    def latest(self) -> None:
        return None


def _scaffold(seen: list[Any]) -> Any:
    return V1.train.Scaffold(init_fn=lambda scaffold, session: seen.append(session))


def test_of_a_cluster_it_is_another_session_with_the_same_variables() -> None:
    target = V1.train.Server.create_local_server(
        V1.ConfigProto(device_filters=["/job:local"])
    ).target
    seen: list[Any] = []
    with tf.Graph().as_default() as graph:
        total = V1.get_variable(
            "total", [], tf.int64, V1.constant_initializer(3), use_resource=True
        )
        more = total.assign_add(4).read_value()
        variables = Initializer(_scaffold(seen))
        with V1.Session(target, graph=graph) as session:
            with open_setup(session, TaskContext(task=Task("local", 0))) as (setup, thread):
                # Built before the variable has a value.
                building = thread.submit(prepare, session, [more])
                assert setup is not session
                assert setup.graph is graph
                source = variables.prepare(setup, _NoCheckpoints(), session)  # type: ignore[arg-type]
                assert source is Source.INITIAL
                step = building.result()
            assert step() == [7]
            assert session.run(total) == 7
            with pytest.raises(RuntimeError, match="closed"):
                setup.run(total)
    # What a scaffold initializes may belong to one session.
    assert seen == [session]


def test_its_graphs_are_not_optimized_and_those_of_steps_are() -> None:
    target = V1.train.Server.create_local_server().target
    with tf.Graph().as_default() as graph:
        given = V1.placeholder(tf.float32, [2, 3])
        # One undoes the other, and Grappler removes both.
        result = tf.transpose(tf.transpose(given)) + 1.0
        options = V1.RunOptions(output_partition_graphs=True)

        def ops(session: Any) -> set[str]:
            metadata = V1.RunMetadata()
            assert (
                session.run(result, {given: np.zeros([2, 3])}, options, metadata).tolist()
                == [[1.0] * 3] * 2
            )
            return {node.op for part in metadata.partition_graphs for node in part.node}

        with (
            V1.Session(target, graph=graph) as session,
            open_setup(session, TaskContext(task=Task("local", 0))) as (setup, _),
        ):
            assert any("Transpose" in op for op in ops(setup))
            assert not any("Transpose" in op for op in ops(session))


def test_without_a_cluster_it_is_the_session_itself() -> None:
    with V1.Session(graph=tf.Graph()) as session:
        with open_setup(session, TaskContext()) as (setup, _):
            assert setup is session
        assert session.run(tf.constant(1)) == 1


def test_local_variables_and_tables_have_values_in_the_session_that_uses_them() -> None:
    target = V1.train.Server.create_local_server().target
    with tf.Graph().as_default() as graph:
        shared = V1.get_variable(
            "shared", [], tf.int64, V1.constant_initializer(3), use_resource=True
        )
        local = V1.get_variable(
            "local",
            initializer=lambda: shared.read_value() + 1,
            collections=[V1.GraphKeys.LOCAL_VARIABLES],
            use_resource=True,
        )
        table = tf.raw_ops.HashTableV2(
            key_dtype=tf.int64, value_dtype=tf.int64
        )  # without a name: it belongs to one session
        fill = tf.raw_ops.LookupTableImportV2(
            table_handle=table, keys=np.array([4]), values=np.array([5])
        )
        V1.add_to_collection(V1.GraphKeys.TABLE_INITIALIZERS, fill)
        found = tf.raw_ops.LookupTableFindV2(
            table_handle=table, keys=local.read_value(), default_value=np.int64(0)
        )
        variables = Initializer()
        with V1.Session(target, graph=graph) as session:
            with open_setup(session, TaskContext(task=Task("local", 0))) as (setup, _):
                variables.prepare(setup, _NoCheckpoints(), session)  # type: ignore[arg-type]
                assert variables.start_local(setup, session, [shared.read_value()]) == [3]
            assert session.run(found) == 5
