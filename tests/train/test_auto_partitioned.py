"""What is partitioned by itself, and trained as if it were whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import parts
import pytest
import tensorflow as tf
import toys
from trained import near
from ways import Train, replications, ways

import psclust
from beds.graphs import build
from psclust.placement.partition import Cut
from psclust.placement.placement_settings import NONE, PlacementSettings
from psclust.replication.device_layout import Decided
from psclust.replication.variables.descriptions import cuts_of
from psclust.replication.variables.places import BuildAgain

pytestmark = pytest.mark.tensorflow

NAMES = ("kernel", "bias", "dense", "table", "out", "offset")
BY_ITSELF = {
    "kernel": Cut(3, (250, 250)),
    "dense": Cut(0, (250, 250)),
    "table": Cut(0, (15_000, 15_000)),
}


def built(program: Any, how: str = "between-graph async", ps: int = 2) -> tuple[Any, Any, int]:
    """(what was decided before the graph was built at last, the variables, how often it was
    built)"""
    decided, times = Decided(), 0
    while True:
        times += 1
        with tf.Graph().as_default():
            try:
                build(program, how, ps=ps, decided=decided)
            except BuildAgain as found:
                decided = found.decided
            else:
                return decided, tf.compat.v1.global_variables(), times


def cuts_in(variables: Any) -> Mapping[str, Cut]:
    return {name: how for name, how in cuts_of(variables).items() if name in NAMES}


@pytest.mark.parametrize("how", ["in-graph sync", "between-graph async"])
def test_every_ps_has_its_part_of_what_is_large(how: str) -> None:
    _, variables, times = built(parts.program, how)
    assert cuts_in(variables) == BY_ITSELF
    assert times == 1
    ps = {v.op.name: v.device for v in variables if v.op.name.startswith(NAMES)}
    assert [ps[f"kernel/part_{part}"][-1] for part in (0, 1)] == ["0", "1"]
    assert [ps[name][-1] for name in ("bias", "out", "offset")] == ["0", "1", "0"]


def test_what_is_found_to_be_a_table_is_cut_as_one() -> None:
    def model(features: Any, labels: Any, mode: str) -> Any:
        table = tf.compat.v1.get_variable("table", [10_000, 100])
        return psclust.EstimatorSpec(mode, loss=tf.reduce_sum(tf.gather(table, features["words"])))

    program = replace(parts.program, model_fn=model)
    decided, variables, times = built(program, ps=1)
    assert (times, decided.cuts) == (2, {})
    _, variables, times = built(program, ps=3)
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
    program = parts.program.with_params({"asks": asks, "train_op": train_op})
    if optimizer or train_op:
        make = (lambda: getattr(parts, optimizer)(0.01)) if optimizer else None
        program = replace(program, optimizer_fn=make)
    decided, variables, times = built(program)
    assert cuts_in(variables) == {}
    assert decided.whole.startswith(said)
    assert times == 2


def test_an_error_of_the_models_own_is_its_own_and_shown_once(
    train_here: Train,
) -> None:
    program = parts.program.with_params({"asks": "nothing_has_this"})
    with pytest.raises(AttributeError, match="no attribute 'nothing_has_this'") as caught:
        train_here(program, "in-graph", sync=True, placement=PlacementSettings(), here=True)
    assert "BuildAgain" not in repr(caught.value.__context__)


@ways(("between-graph", True))
def test_the_weights_are_those_of_one_process(
    train_here: Train, replication: str, sync: bool
) -> None:
    workers = 2 if sync else 1
    alone = train_here(parts.program)
    trained = train_here(
        parts.program, replication, sync=sync, workers=workers, placement=PlacementSettings()
    )
    assert trained.step == alone.step == 2
    near(alone, trained, *NAMES, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("optimizer", ["AdamOptimizer", "MomentumOptimizer"])
@replications()
def test_so_are_those_of_a_model_in_shards_of_few_bytes(
    train_here: Train, replication: str, optimizer: str
) -> None:
    program = toys.line.with_params({"optimizer": optimizer})
    cut = PlacementSettings("balanced", max_shard_bytes=8)
    trained = train_here(program, replication, sync=True, placement=cut)
    near(train_here(program), trained, "weights", "words", "bias")


@pytest.mark.long
@pytest.mark.parametrize(
    ("first", "then"),
    [
        (PlacementSettings("balanced", max_shard_bytes=NONE), PlacementSettings()),
        (PlacementSettings(), PlacementSettings(max_shard_bytes=NONE)),
        (PlacementSettings(max_shard_bytes=300_000), PlacementSettings()),
    ],
    ids=["from the default before", "to whole variables", "from a size"],
)
def test_a_checkpoint_moves_between_all_ways_to_cut(
    train_here: Train, first: PlacementSettings, then: PlacementSettings
) -> None:
    alone = train_here(parts.program)
    way = {"replication": "between-graph", "sync": True, "folder": "model"}
    train_here(parts.program, placement=first, max_steps=1, **way)
    trained = train_here(parts.program, placement=then, ps=3, **way)
    assert trained.step == 2
    near(alone, trained, *NAMES, rtol=1e-3, atol=1e-5)
