"""Checkpoints and the life of variables, in local sessions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from psclust.errors import NotFiniteError, PsclustError
from psclust.replication.device_layout import DeviceLayout
from psclust.replication.variables.training_state import create_state
from psclust.train.checkpoints.checkpoint import Checkpoints
from psclust.train.checkpoints.initializer import Initializer, Source
from psclust.train.checkpoints.progress import spread

pytestmark = pytest.mark.tensorflow


@dataclass
class Model:
    """A step counter, positions of some replicas and a vector `v`."""

    session: Any
    v: Any
    state: Any
    variables: Initializer
    checkpoints: Checkpoints

    def set(self, value: float) -> None:
        self.session.run(self.v.initializer, {self.v.initializer.inputs[1]: [value] * 2})

    @property
    def value(self) -> list[float]:
        return list(self.session.run(self.v.value()))


@contextmanager
def _model(
    folder: Path,
    *,
    shape: tuple[int, ...] = (2,),
    name: str = "v",
    replicas: int = 2,
    use_resource: bool = True,
) -> Iterator[Model]:
    with tf.Graph().as_default() as graph:
        state = create_state(DeviceLayout(0, ("",) * replicas, ""))
        ones = tf.compat.v1.ones_initializer()
        v = tf.compat.v1.get_variable(name, shape, initializer=ones, use_resource=use_resource)
        variables = Initializer()
        with tf.compat.v1.Session(graph=graph) as session:
            yield Model(session, v, state, variables, Checkpoints(variables.all, folder, ""))


@pytest.mark.parametrize("use_resource", [True, False])
def test_what_was_saved_is_restored(tmp_path: Path, use_resource: bool) -> None:
    with _model(tmp_path, use_resource=use_resource) as model:
        assert model.variables.prepare(model.session, model.checkpoints) is Source.INITIAL
        model.set(7.0)
        assert model.checkpoints.save(model.session, 3) == str(tmp_path / "model.ckpt-3")
    with _model(tmp_path, use_resource=use_resource) as model:
        assert model.variables.prepare(model.session, model.checkpoints) is Source.CHECKPOINT
        assert model.value == [7.0, 7.0]


def test_one_op_restores_all_variables_of_a_device(tmp_path: Path) -> None:
    with _model(tmp_path) as model:
        ops = model.session.graph.get_operations()
        assert sum(op.type == "RestoreV2" for op in ops) == 1


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_named_and_not_written(
    tmp_path: Path, dtype: str, bad: float
) -> None:
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        good, broken = (
            tf.compat.v1.get_variable(name, [3], dtype, tf.ones, use_resource=True)
            for name in ("good", "broken")
        )
        checkpoints = Checkpoints([good, broken], tmp_path, "")
        session.run(tf.compat.v1.global_variables_initializer())
        checkpoints.save(session, 1)
        session.run(broken.assign(tf.cast([1.0, bad, 1.0], dtype)))
        with pytest.raises(NotFiniteError, match="step 2: broken has values that are not finite"):
            checkpoints.save(session, 2)
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "model.ckpt-1")


def test_live_variables_stay_until_a_lost_one_takes_all_back_to_the_checkpoint(
    tmp_path: Path,
) -> None:
    with _model(tmp_path) as model:
        model.variables.prepare(model.session, model.checkpoints)
        model.checkpoints.save(model.session, 0)
        model.set(7.0)
        assert model.variables.prepare(model.session, model.checkpoints) is Source.ALIVE
        assert model.value == [7.0, 7.0]
        model.session.run(tf.raw_ops.DestroyResourceOp(resource=model.state.global_step.handle))
        assert [variable.op.name for variable in model.variables.missing(model.session)] == [
            "global_step"
        ]
        model.variables.prepare(model.session, model.checkpoints)
        assert model.value == [1.0, 1.0]


def test_without_a_checkpoint_only_the_lost_variable_starts_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with _model(tmp_path) as model:
        model.variables.prepare(model.session, model.checkpoints)
        model.set(7.0)
        model.session.run(tf.raw_ops.DestroyResourceOp(resource=model.state.global_step.handle))
        model.variables.prepare(model.session, model.checkpoints)
        assert model.value == [7.0, 7.0]
        assert (
            "no checkpoint to restore; starting again with the initial value of global_step"
            in caplog.text
        )


def test_waiting_for_the_chief_has_a_deadline_and_names_what_is_missing(tmp_path: Path) -> None:
    with (
        _model(tmp_path) as model,
        pytest.raises(PsclustError, match=r"the chief has not initialized .*v; see"),
    ):
        model.variables.await_chief(model.session, 0.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"name": "w"}, "w is missing"), ({"shape": (3,)}, r"v is \[2\], the model's \[3\]")],
)
def test_the_checkpoint_of_another_model_is_refused(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with _model(tmp_path) as model:
        model.variables.prepare(model.session, model.checkpoints)
        model.checkpoints.save(model.session, 3)
    with (
        _model(tmp_path, **change) as model,
        pytest.raises(PsclustError, match=f"the checkpoint of another model: {message}"),
    ):
        model.variables.prepare(model.session, model.checkpoints)


def test_another_number_of_replicas_shares_what_has_been_read(tmp_path: Path) -> None:
    with _model(tmp_path, replicas=2) as model:
        model.variables.prepare(model.session, model.checkpoints)
        model.session.run(model.state.positions.assign([10, 9]).op)
        model.checkpoints.save(model.session, 3)
    with _model(tmp_path, replicas=3) as model:
        model.variables.prepare(model.session, model.checkpoints)
        assert model.session.run(model.state.positions.value()).tolist() == [7, 6, 6]


@pytest.mark.parametrize(
    ("positions", "replicas", "wanted"),
    [([4, 3], 2, [4, 3]), ([4, 3], 1, [7]), ([5], 4, [2, 1, 1, 1])],
)
def test_positions_are_spread_evenly(
    positions: list[int], replicas: int, wanted: list[int]
) -> None:
    assert list(spread(np.array(positions), replicas)) == wanted


def test_local_variables_and_tables_have_values_where_they_are_used(tmp_path: Path) -> None:
    target = tf.compat.v1.train.Server.create_local_server().target
    with tf.Graph().as_default() as graph:
        three = tf.compat.v1.constant_initializer(3)
        shared = tf.compat.v1.get_variable("shared", [], tf.int64, three, use_resource=True)
        local = tf.compat.v1.get_variable(
            "local",
            initializer=lambda: shared.read_value() + 1,
            collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES],
            use_resource=True,
        )
        table = tf.raw_ops.HashTableV2(key_dtype=tf.int64, value_dtype=tf.int64)
        fill = tf.raw_ops.LookupTableImportV2(
            table_handle=table, keys=np.array([4]), values=np.array([5])
        )
        tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.TABLE_INITIALIZERS, fill)
        found = tf.raw_ops.LookupTableFindV2(
            table_handle=table, keys=local.read_value(), default_value=np.int64(0)
        )
        seen: list[Any] = []
        variables = Initializer(
            tf.compat.v1.train.Scaffold(init_fn=lambda scaffold, session: seen.append(session))
        )
        checkpoints = Checkpoints(variables.all, tmp_path, "")
        with tf.compat.v1.Session(target, graph=graph) as session:
            assert variables.prepare(session, checkpoints) is Source.INITIAL
            assert variables.start_local(session, [shared.read_value()]) == [3]
            assert session.run(found) == 5
    assert seen == [session]
