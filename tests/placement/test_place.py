"""Which ps holds a variable: by examples, and by properties of any set of variables."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from psclust.cli.main import psclust
from psclust.errors import UsageError
from psclust.placement.cuts import cuts
from psclust.placement.partition import Cut, partition
from psclust.placement.place import place
from psclust.placement.placement_settings import PlacementSettings
from psclust.placement.policies import POLICIES, ROUND_ROBIN
from psclust.placement.variable import Variable, dtype_bytes
from psclust.spec.cluster_file import Placement

DOCS = Path(__file__).parents[2] / "docs" / "placement.md"
VGG = [
    Variable(name, (size,), "uint8")
    for name, size in zip("abcdefgh", (100, 7000, 100, 64000, 100, 16000, 100, 2000), strict=True)
]


def some_variables(seed: int) -> list[Variable]:
    chance = random.Random(seed)
    sizes = [int(10 ** chance.uniform(0, 6)) for _ in range(chance.randint(1, 40))]
    return [Variable(f"v{index}", (size, 2)) for index, size in enumerate(sizes)]


def loads(variables: list[Variable], placed: dict[str, int], ps: int) -> list[int]:
    return [
        sum(variable.bytes for variable in variables if placed[variable.name] == index)
        for index in range(ps)
    ]


def test_round_robin_deals_out_in_the_order_given() -> None:
    assert list(place(VGG, 3, PlacementSettings(ROUND_ROBIN)).values()) == [0, 1, 2, 0, 1, 2, 0, 1]


def test_balanced_puts_the_largest_first_onto_the_least_loaded() -> None:
    placed = place(VGG, 2, PlacementSettings("balanced"))
    assert (placed["d"], placed["f"], placed["b"], placed["h"]) == (0, 1, 1, 1)


@pytest.mark.parametrize(
    ("table", "kernel", "expected"),
    [
        (51_200_000, 20_480, [0, 0, 0]),  # next to nothing
        (51_200_000, 100_000, [0, 1, 1]),  # bytes that take time
        (1_000_000, 20_480, [0, 1, 1]),  # few, but more than a fiftieth
        (401_408, 5_120, [0, 0, 0]),
        (0, 0, [0, 0, 0]),
    ],
)
def test_balanced_uses_no_ps_for_next_to_nothing(
    table: int, kernel: int, expected: list[int]
) -> None:
    made = [
        Variable(name, (bytes_,), "uint8")
        for name, bytes_ in (("table", table), ("kernel", kernel), ("bias", kernel // 1024))
    ]
    assert list(place(made, 2, PlacementSettings("balanced")).values()) == expected


def test_equal_variables_are_dealt_out_by_name() -> None:
    same = [Variable(name, (4,)) for name in "dbca"]
    assert place(same, 2, PlacementSettings("balanced")) == {"a": 0, "b": 1, "c": 0, "d": 1}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("ps", [1, 2, 5])
def test_balanced_is_the_same_in_any_order_and_close_to_the_best(seed: int, ps: int) -> None:
    variables = some_variables(seed)
    policy = PlacementSettings("balanced", max_shard_bytes=200_000)
    pieces = partition(variables, cuts(variables, ps, policy))
    placed = place(pieces, ps, policy)
    shuffled = list(pieces)
    random.Random(seed + 1).shuffle(shuffled)
    assert place(shuffled, ps, policy) == placed
    load = loads(pieces, placed, ps)
    best = max(sum(load) / ps, max(piece.bytes for piece in pieces))
    assert max(load) <= (4 / 3) * best + max(piece.bytes for piece in pieces)
    next_to_nothing = max(load) / 50
    assert min(load) >= max(load) - max(piece.bytes for piece in pieces) - next_to_nothing


@pytest.mark.parametrize("policy", POLICIES)
def test_pins_precede_every_policy_and_the_first_that_fits_wins(policy: str) -> None:
    placed = place(VGG, 3, PlacementSettings(policy, {"d": 2, "[dgh]": 1}))
    assert (placed["d"], placed["g"], placed["h"]) == (2, 1, 1)
    assert len(placed) == len(VGG)


def test_balanced_counts_what_is_pinned_as_load() -> None:
    placed = place(VGG, 2, PlacementSettings("balanced", {"d": 1}))
    assert [name for name, ps in placed.items() if ps == 1] == ["d"]


def test_a_pinned_table_takes_all_its_shards_with_it() -> None:
    pieces = partition(
        [Variable("table", (10, 4)), Variable("w", (3,))], {"table": Cut(0, (3, 3, 2, 2))}
    )
    placed = place(pieces, 3, PlacementSettings(pin={"table": 2}))
    assert {ps for name, ps in placed.items() if name.startswith("table/")} == {2}
    assert place(pieces, 3, PlacementSettings(pin={"table/part_1": 1}))["table/part_1"] == 1


@pytest.mark.parametrize("ps", [1, 2, 3, 4, 6])
def test_twice_as_many_ps_take_half_of_a_table_from_each_and_move_nothing_else(ps: int) -> None:
    rows, tables = 48, ["table", "other"]
    there = []
    for count in (ps, 2 * ps):
        variables = [Variable("table", (rows, 4)), Variable("b", (4,)), Variable("other", (rows,))]
        made = {name: Cut(0, (rows // count,) * count) for name in tables}
        placed = place(partition(variables, made), count, PlacementSettings())
        there.append(
            [placed[f"{name}/part_{row * count // rows}"] for name in tables for row in range(rows)]
        )
    moved = Counter((before, after) for before, after in zip(*there, strict=True))
    for number in range(ps):
        stays, goes = sorted(after for before, after in moved if before == number)
        assert stays == number < ps <= goes
        assert moved[number, stays] == moved[number, goes] == len(there[0]) // ps // 2
    assert len({after for _, after in moved}) == 2 * ps


def test_a_pin_beyond_the_last_ps_is_told() -> None:
    with pytest.raises(
        UsageError, match=r"'x\*' is pinned to ps:2, and there are 2 ps; write a number from 0 on"
    ):
        place(VGG, 2, PlacementSettings(pin={"x*": 2}))


@pytest.mark.parametrize(
    "policy",
    [
        PlacementSettings(ROUND_ROBIN),
        PlacementSettings("balanced"),
        PlacementSettings(max_shard_bytes=8),
        PlacementSettings(max_shard_bytes="none"),
        PlacementSettings("balanced", {"a/*": 1, "b": 0}, 1 << 20),
    ],
    ids=str,
)
def test_a_policy_reads_what_it_renders(policy: PlacementSettings) -> None:
    assert PlacementSettings.parse(policy.render()) == policy


def test_a_plain_policy_is_one_word() -> None:
    assert PlacementSettings().render() == PlacementSettings(ROUND_ROBIN).render() == "round_robin"
    assert PlacementSettings.parse("") == PlacementSettings()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("greedy", "must be one of round_robin, balanced"),
        ('{"policy": "greedy"}', "must be one of"),
        ('{"pins": {"a": 0}}', "cannot be read"),
        ("{", "cannot be read"),
    ],
)
def test_a_text_that_is_no_policy_is_told(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        PlacementSettings.parse(text)


def test_the_size_of_an_element() -> None:
    sizes = {1: ("int8", "bool"), 2: ("bfloat16", "half", "float16"), 8: ("float64",)}
    for size, dtypes in {**sizes, 4: ("float32", "qint32")}.items():
        assert {dtype_bytes(dtype) for dtype in dtypes} == {size}


# ---- a policy in the table is one that users can choose and read about


@pytest.mark.parametrize("name", POLICIES)
def test_every_variable_goes_to_one_ps_whatever_is_there_already(name: str) -> None:
    variables = [Variable(f"v{index}", (index + 1,)) for index in range(9)]
    placed = POLICIES[name](variables, [1, 0, 0])
    assert placed.keys() == {variable.name for variable in variables}
    assert set(placed.values()) == {0, 1, 2}


@pytest.mark.parametrize("name", POLICIES)
def test_a_cluster_file_and_a_task_accept_it(name: str) -> None:
    assert Placement.model_validate(name).policy == PlacementSettings.parse(name).policy == name


def test_schema_help_and_docs_list_the_table() -> None:
    schema = Placement.model_json_schema()
    assert schema["anyOf"][0]["enum"] == list(POLICIES)
    said = CliRunner().invoke(psclust, ["up", "--help"]).output
    assert [name for name in POLICIES if f"{name}:" not in " ".join(said.split())] == []
    documented = re.findall(r"^\| `(\w+)` \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert documented == list(POLICIES)
