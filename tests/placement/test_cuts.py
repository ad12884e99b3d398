"""What `max_shard_bytes` partitions, above all by itself."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from psclust.placement.cuts import cuts, guess
from psclust.placement.partition import Cut, partition
from psclust.placement.place import place
from psclust.placement.placement_settings import NONE, PlacementSettings
from psclust.placement.table import tabulate
from psclust.placement.variable import Variable

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from well_known_models import MODELS

AUTO = PlacementSettings()
TABLES = ("embeddings", "table", "softmax/weights")


def known(model: str) -> list[Variable]:
    return [
        Variable(name, shape, sparse=name.startswith(TABLES)) for name, shape in MODELS[model]()
    ]


@pytest.mark.parametrize("model", MODELS)
def test_round_robin_is_even_for_well_known_models(model: str) -> None:
    uneven = {ps: tabulate(known(model), ps, AUTO, workers=1).imbalance for ps in range(2, 17)}
    assert max(uneven.values()) <= 1.1, uneven


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("ps", [2, 5])
def test_every_ps_has_a_part_of_a_large_variable(model: str, ps: int) -> None:
    variables = known(model)
    how = cuts(variables, ps, AUTO)
    placed = place(partition(variables, how), ps, AUTO)
    for variable in variables:
        if variable.bytes > 1_000_000:
            count = len(how[variable.name].sizes)
            assert count % ps == 0
            on = {placed[f"{variable.name}/part_{index}"] for index in range(count)}
            assert on == set(range(ps))
            assert count == ps if variable.sparse else variable.bytes // count <= 1_000_000


def test_small_variables_take_turns_as_if_the_large_ones_were_not_there() -> None:
    variables = [
        Variable("a", (1_000, 1_000)),
        Variable("b", (1_000,)),
        Variable("c", (3_000, 500)),
        Variable("d", (500,)),
        Variable("e", (2,)),
    ]
    placed = place(partition(variables, cuts(variables, 3, AUTO)), 3, AUTO)
    assert [placed[name] for name in "bde"] == [0, 1, 2]
    assert [placed[f"a/part_{index}"] for index in range(6)] == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize(
    "variables",
    [
        [Variable("w", (200, 300)), Variable("b", (300,))],
        [Variable("w", (4_000, 300), trained=False), Variable("b", (300,))],
        [Variable("w", (4_000, 300), divisible=False), Variable("b", (300,))],
    ],
    ids=["small", "not trained", "not made with get_variable"],
)
def test_what_need_not_or_cannot_be_cut_stays_whole(variables: list[Variable]) -> None:
    assert cuts(variables, 2, AUTO) == {}


def test_a_word_or_a_size_settles_it() -> None:
    variables = [Variable("w", (4_000, 300)), Variable("b", (300,))]
    assert cuts(variables, 2, PlacementSettings(max_shard_bytes=NONE)) == {}
    halves = cuts(variables, 2, PlacementSettings(max_shard_bytes=2_400_000))
    assert halves == {"w": Cut(0, (2_000, 2_000))}


def test_a_first_guess_is_right_for_large_dense_variables_and_large_tables() -> None:
    variables = [
        Variable("table", (1_000_000, 16), sparse=True),
        Variable("dense", (2_000, 2_000), sparse=False),
        Variable("bias", (2_000,), sparse=False),
    ]
    made = {each.name: guess(Variable(each.name, each.shape), 4, AUTO) for each in variables}
    assert {name: how for name, how in made.items() if how} == cuts(variables, 4, AUTO)


@pytest.mark.parametrize("seed", range(10))
def test_all_models_can_be_cut_and_put_together(seed: int) -> None:
    draw = random.Random(seed)
    variables = [
        Variable(
            f"v{number}",
            tuple(draw.choice((1, 3, 7, 64, 1000)) for _ in range(draw.randrange(4))),
            sparse=draw.random() < 0.2,
            trained=draw.random() < 0.8,
        )
        for number in range(40)
    ]
    for ps in (1, 2, 7):
        pieces = partition(variables, cuts(variables, ps, AUTO))
        assert sum(piece.bytes for piece in pieces) == sum(each.bytes for each in variables)
        assert len({piece.name for piece in pieces}) == len(pieces)
