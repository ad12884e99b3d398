"""What is partitioned by itself, and trained as if it were whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from psclust.placement.partition import Cut
from psclust.placement.placement_settings import NONE, PlacementSettings

pytestmark = pytest.mark.tensorflow

NAMES = ("kernel", "bias", "dense", "table", "out", "offset")
WORKERS = ("/job:worker/task:0", "/job:worker/task:1")
BY_ITSELF = {
    "kernel": Cut(3, (250, 250)),
    "dense": Cut(0, (250, 250)),
    "table": Cut(0, (15_000, 15_000)),
}


def built(program: Any, replication: str = "between-graph", ps: int = 2) -> tuple[Any, Any, int]:
    """(the layout for which the graph was built at last, the variables, how often it was built)"""
    import tensorflow as tf

    from psclust.replication.build_between_graph import build_between_graph
    from psclust.replication.build_in_graph import build_in_graph
    from psclust.replication.device_layout import DeviceLayout
    from psclust.replication.variables.places import BuildAgain

    layout, times = DeviceLayout(ps, WORKERS, WORKERS[0]), 0
    while True:
        times += 1
        with tf.Graph().as_default():
            try:
                if replication == "in-graph":
                    build_in_graph(program, layout, sync=True)
                else:
                    build_between_graph(program, layout, 0, sync=False, chief=True)
            except BuildAgain as found:
                layout = replace(layout, decided=found.decided)
            else:
                return layout, tf.compat.v1.global_variables(), times


def cuts_in(variables: Any) -> Mapping[str, Cut]:
    from psclust.replication.variables.descriptions import cuts_of

    return {name: how for name, how in cuts_of(variables).items() if name in NAMES}


@pytest.mark.parametrize("replication", ["in-graph", "between-graph"])
def test_every_ps_has_its_part_of_what_is_large(replication: str) -> None:
    import parts

    _, variables, times = built(parts.program, replication)
    assert cuts_in(variables) == BY_ITSELF
    assert times == 1
    ps = {v.op.name: v.device for v in variables if v.op.name.startswith(NAMES)}
    assert [ps[f"kernel/part_{part}"][-1] for part in (0, 1)] == ["0", "1"]
    assert [ps[name][-1] for name in ("bias", "out", "offset")] == ["0", "1", "0"]


def test_what_is_found_to_be_a_table_is_cut_as_one() -> None:
    import parts

    import psclust

    def model(features: Any, mode: str, params: Any) -> Any:
        import tensorflow as tf

        table = tf.compat.v1.get_variable("table", [10_000, 100])
        return psclust.EstimatorSpec(mode, loss=tf.reduce_sum(tf.gather(table, features["words"])))

    program = psclust.Program(
        lambda features, labels, mode, params: model(features, mode, params),
        parts.program.input_fn,
        parts.program.optimizer_fn,
    )
    layout, variables, times = built(program, ps=1)
    assert (times, layout.decided.cuts) == (2, {})
    layout, variables, times = built(program, ps=3)
    assert cuts_in(variables) == {"table": Cut(0, (3334, 3333, 3333))}


@pytest.mark.parametrize(
    ("asks", "train_op", "optimizer", "said"),
    [
        ("handle", False, "", "model_fn needs whole ones ('ShardedVariable' object has no"),
        ("op", False, "", "model_fn needs whole ones ('ShardedVariable' object has no"),
        ("", True, "", "the model's own train_op is not known to be element-wise"),
        ("", False, "OfAnother", "OfAnother is not known to be element-wise"),
    ],
)
def test_variables_stay_whole_where_the_model_or_its_optimizer_needs_them(
    asks: str, train_op: bool, optimizer: str, said: str
) -> None:
    import parts

    program = parts.program.with_params({"asks": asks, "train_op": train_op})
    if optimizer or train_op:
        program = replace(
            program,
            optimizer_fn=(lambda: getattr(parts, optimizer)(0.01)) if optimizer else None,
        )
    layout, variables, times = built(program)
    assert cuts_in(variables) == {}
    assert layout.decided.whole.startswith(said)
    assert times == 2


def test_an_error_of_the_models_own_is_its_own() -> None:
    import parts

    with pytest.raises(AttributeError, match="no attribute 'nothing_has_this'"):
        built(parts.program.with_params({"asks": "nothing_has_this", "train_op": False}))


def test_its_traceback_shows_it_once(train_here: Callable[..., Any]) -> None:
    import parts

    program = parts.program.with_params({"asks": "nothing_has_this", "train_op": False})
    with pytest.raises(AttributeError) as caught:
        train_here(program, "in-graph", sync=True, placement=PlacementSettings(), here=True)
    assert "BuildAgain" not in repr(caught.value.__context__)


@pytest.mark.parametrize(
    ("replication", "sync"),
    [
        ("in-graph", True),
        ("between-graph", True),
        pytest.param("in-graph", False, marks=pytest.mark.long),
        pytest.param("between-graph", False, marks=pytest.mark.long),
    ],
)
def test_the_weights_are_those_of_one_process(
    train_here: Callable[..., Any], replication: str, sync: bool
) -> None:
    import parts

    workers = 2 if sync else 1
    alone = train_here(parts.program)
    trained = train_here(
        parts.program, replication, sync=sync, workers=workers, placement=PlacementSettings()
    )
    assert trained.step == alone.step == 2
    for name in NAMES:
        np.testing.assert_allclose(
            trained.values[name], alone.values[name], rtol=1e-3, atol=1e-5, err_msg=name
        )


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (PlacementSettings("balanced", max_shard_bytes=NONE), PlacementSettings()),
        pytest.param(
            PlacementSettings(), PlacementSettings(max_shard_bytes=NONE), marks=pytest.mark.long
        ),
        pytest.param(
            PlacementSettings(max_shard_bytes=300_000), PlacementSettings(), marks=pytest.mark.long
        ),
    ],
    ids=["from the default before", "to whole variables", "from a size"],
)
def test_a_checkpoint_moves_between_all_ways_to_cut(
    train_here: Callable[..., Any], first: PlacementSettings, then: PlacementSettings
) -> None:
    import parts

    alone = train_here(parts.program)
    way = {"replication": "between-graph", "sync": True, "folder": "model"}
    train_here(parts.program, placement=first, max_steps=1, **way)
    trained = train_here(parts.program, placement=then, ps=3, **way)
    assert trained.step == 2
    for name in NAMES:
        np.testing.assert_allclose(
            trained.values[name], alone.values[name], rtol=1e-3, atol=1e-5, err_msg=name
        )
