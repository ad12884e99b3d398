"""The effect of a placement, and the advice about it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from psclust.placement.cuts import cuts
from psclust.placement.link_speed import LinkSpeed
from psclust.placement.partition import partition
from psclust.placement.placement_settings import AUTO, NONE, PlacementSettings
from psclust.placement.policies import BALANCED, ROUND_ROBIN
from psclust.placement.streamed import unstreamed
from psclust.placement.table import IN_STEP, Table, format_bytes, format_size, tabulate, warning
from psclust.placement.table_text import gain_note, one_way_note
from psclust.placement.variable import Variable

DENSE = [Variable("a", (100,)), Variable("b", (50, 2)), Variable("moving", (10,), trained=False)]
TABLE = Variable("table", (1000, 16), sparse=True)
SHORT = "less than 1.0 MB of trained variables, in less than 2 shards a ps"
WHOLE = PlacementSettings(ROUND_ROBIN, max_shard_bytes=NONE)
MODEL = [
    Variable(f"layer{index}/{name}", shape)
    for index in range(4)
    for name, shape in (("weights", (1000, 100 + index)), ("biases", (100 + index,)))
]


def in_shards(variable: Variable, limit: int) -> list[Variable]:
    return partition([variable], cuts([variable], 2, PlacementSettings(max_shard_bytes=limit)))


def wire(table: Table, way: str) -> tuple[int, int]:
    found = next(entry for entry in table.wire if entry.way == way)
    return found.pulled, found.pushed


def alone(variables: list[Variable], wire_dtype: str) -> tuple[int, int]:
    """With one ps and one worker."""
    made = tabulate(variables, 1, PlacementSettings(), workers=1, wire_dtype=wire_dtype)
    return wire(made, "in-graph sync")


def test_rows_totals_and_imbalance() -> None:
    table = tabulate(DENSE, 2, PlacementSettings(), workers=3)
    assert [(row.variable, row.bytes, row.ps) for row in table.rows] == [
        ("a", 400, 0),
        ("b", 400, 1),
        ("moving", 40, 0),
    ]
    assert table.totals == (440, 400)
    assert table.imbalance == pytest.approx(440 / 420)
    assert sum(row.share for row in table.rows) == pytest.approx(1.0)
    assert table.warning is None


def test_every_trained_variable_is_pulled_and_pushed_once_by_every_replica_of_a_step() -> None:
    table = tabulate(DENSE, 2, PlacementSettings(), workers=3)
    assert wire(table, "in-graph sync") == wire(table, "between-graph sync") == (2400, 2400)
    assert wire(table, "in-graph async") == wire(table, "between-graph async") == (800, 800)


def test_bfloat16_halves_float32_and_nothing_else() -> None:
    variables = [Variable("a", (100,)), Variable("b", (10,), "float64")]
    assert alone(variables, "bfloat16") == (280, 280)


def test_int8_is_for_large_dense_float32_and_the_rest_is_bfloat16() -> None:
    model = [
        Variable("large", (5, 3000)),
        Variable("small", (10,)),
        Variable("t", (20_000, 4), sparse=True, rows=5),
    ]
    table, without = (
        tabulate(model, 1, PlacementSettings(), workers=1, wire_dtype="int8", one_way=ways)
        for ways in ((), (IN_STEP,))
    )
    # In fifteen blocks of a thousand, with a scale each. What is pulled as a whole is bfloat16.
    large, rest = 15 * 1004, 20 + 40
    assert (
        wire(table, "in-graph sync")
        == wire(table, IN_STEP)
        == wire(without, "in-graph sync")
        == (large + rest, large + rest + 40)
    )
    assert wire(without, IN_STEP) == (30_000 + rest, large + rest + 40)
    # A size without a divisor of that order is padded.
    assert alone([Variable("prime", (10_007,))], "int8")[1] == 10_280
    assert alone([Variable("a", (10_000,), "float64")], "int8")[1] == 80_000


def test_of_a_sparse_variable_only_the_rows_travel_with_their_indices() -> None:
    variables = [Variable("t", (1000, 4), sparse=True, rows=5)]
    table = tabulate(variables, 2, PlacementSettings(max_shard_bytes=8000), workers=2)
    assert wire(table, "between-graph sync") == (160, 240)
    assert not table.wire[0].at_least
    assert table.sparse == ("t",)


def test_rows_that_are_unknown_are_left_out_and_marked() -> None:
    variables = [Variable("t", (1000, 4), sparse=True), Variable("w", (10,))]
    table = tabulate(variables, 2, PlacementSettings(), workers=2)
    assert wire(table, "between-graph async") == (40, 40)
    assert all(entry.at_least for entry in table.wire)


def test_the_busiest_ps_is_what_a_step_waits_for() -> None:
    variables = [Variable("a", (300,)), Variable("b", (100,))]
    table = tabulate(variables, 2, PlacementSettings(), workers=2)
    assert [entry.busiest for entry in table.wire] == [4800, 2400, 4800, 2400]


def test_the_time_of_a_step_is_that_of_the_busiest_link_while_all_replicas_make_one() -> None:
    variables = [Variable("a", (300_000,)), Variable("b", (100_000,))]
    table = tabulate(variables, 2, WHOLE, workers=2)
    # The first ps sends 1.2 MB to each of two replicas; each replica gets 1.6 MB.
    assert [entry.one_direction for entry in table.wire] == [2_400_000] * 4
    assert [entry.both_directions for entry in table.wire] == [4_800_000] * 4
    for gigabits, at_once, seconds in ((1, True, 2.4 / 119.6), (10, False, 0.48 / 119.6)):
        found = table.wire[0].seconds(LinkSpeed.nominal(gigabits), at_once=at_once)
        assert found == pytest.approx(seconds)
    # One replica alone waits for its own link.
    alone = tabulate(variables, 2, WHOLE, workers=1)
    assert {entry.one_direction for entry in alone.wire} == {1_600_000}


def test_what_the_advice_saves_is_said() -> None:
    # All weights on one of two ps, for two workers; then half of them.
    table = tabulate(MODEL, 2, WHOLE, workers=2)
    balanced = tabulate(MODEL, 2, PlacementSettings(BALANCED), workers=2)
    said, fast, nothing = (
        gain_note(each, "in-graph sync", LinkSpeed.nominal(gigabits), {})
        for each, gigabits in ((table, 1), (table, 100), (balanced, 1))
    )
    numbers = [float(number) for number in re.findall(r"([\d.]+) ms", str(said))]
    assert numbers == pytest.approx([13.6, 27.2], rel=0.02)
    assert "messages" not in str(said)
    many = "0.136 ms in place of 0.272 ms. The messages to more ps may take longer than that saves."
    assert many in str(fast)
    assert nothing is None


@pytest.mark.parametrize(
    ("one_way", "way", "named"),
    [
        ({}, "in-graph sync", None),
        ({"in-graph sync": "clip_norm=1"}, "in-graph sync", "clip_norm=1: "),
        ({"between-graph sync": "backup_workers"}, "between-graph sync", "backup_workers: "),
        ({"between-graph sync": "backup_workers"}, "in-graph sync", None),
    ],
)
def test_what_makes_a_step_use_the_wire_one_way_at_a_time_is_named(
    one_way: dict[str, str], way: str, named: str | None
) -> None:
    found = one_way_note(one_way, way)
    assert found is None if named is None else str(found).startswith(named)


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ([Variable("large", (500, 500))], None),
        ([Variable("small", (500, 499))], SHORT),
        ([Variable("large", (500, 500)), TABLE], "rows of table"),
        ([Variable("frozen", (500, 500), trained=False)], SHORT),
        (in_shards(Variable("small", (500, 100)), 50_000), None),
        (in_shards(Variable("small", (500, 60)), 50_000), SHORT),
        (in_shards(Variable("small", (500, 100)), 30_000), SHORT),
        (in_shards(TABLE, 1000), "rows of table"),
    ],
)
def test_what_keeps_a_models_steps_from_being_streamed_is_named(
    variables: list[Variable], reason: str | None
) -> None:
    assert unstreamed(variables, 2) == reason


def test_round_robin_that_puts_all_weights_on_one_ps_is_told_to_partition() -> None:
    assert warning(MODEL, 2, WHOLE) == (
        "ps:0 holds 99 % of the variables' bytes (2.0 times the mean); "
        "write max_shard_bytes: auto to partition layer3/weights"
    )


def test_variables_that_cannot_be_cut_are_told_to_balance_and_pins_stay() -> None:
    made = [replace(variable, divisible=False) for variable in MODEL]
    assert str(warning(made, 2, PlacementSettings())).endswith("; write placement: balanced")
    pinned = PlacementSettings(ROUND_ROBIN, {"layer0/biases": 1})
    assert str(warning(made, 2, pinned)).endswith("; write policy: balanced")


def test_one_huge_variable_is_told_to_be_cut() -> None:
    model = [
        Variable("fc6/weights", (16000, 1000)),
        Variable("conv/weights", (300, 1000)),
        Variable("biases", (1000,)),
    ]
    assert warning(model, 2, replace(WHOLE, policy=BALANCED)) == (
        "ps:0 holds 98 % of the variables' bytes (2.0 times the mean), "
        "64.0 MB of them in fc6/weights; write max_shard_bytes: auto to partition fc6/weights"
    )
    pins = {"fc6/weights/part_*": 0}
    assert str(warning(model, 2, PlacementSettings(pin=pins))).endswith("pin it by shards")


@pytest.mark.parametrize("ps", [2, 3, 4, 7])
@pytest.mark.parametrize(
    "policy",
    [
        PlacementSettings(ROUND_ROBIN, max_shard_bytes=NONE),
        PlacementSettings(BALANCED, max_shard_bytes=NONE),
        PlacementSettings(ROUND_ROBIN, max_shard_bytes=10_000_000),
    ],
    ids=["round robin", "balanced", "too large"],
)
def test_whoever_takes_the_advice_is_not_warned_again(ps: int, policy: PlacementSettings) -> None:
    model = [Variable("big", (5000, 100)), *MODEL]
    said = warning(model, ps, policy)
    while said is not None:
        assert "max_shard_bytes: auto" in said
        better = replace(policy, max_shard_bytes=AUTO)
        assert better != policy
        policy, said = better, warning(model, ps, better)


def test_a_variable_that_cannot_be_cut_is_the_reason_given() -> None:
    model = [Variable("dense/kernel", (5000, 100), divisible=False), Variable("bias", (100,))]
    assert str(warning(model, 2, PlacementSettings(BALANCED))).endswith(
        "; dense/kernel was not made with tf.compat.v1.get_variable, so it cannot be partitioned: "
        "make it so, or use fewer ps"
    )


def test_a_pin_that_makes_it_uneven_is_the_reason_given() -> None:
    said = warning(MODEL, 2, PlacementSettings(BALANCED, {"layer*/weights": 0}))
    assert str(said).endswith("layer3/weights is pinned there: change the pin, or pin it by shards")


def test_the_limit_is_one_fifth_over_the_mean() -> None:
    assert warning([Variable("a", (1200,)), Variable("b", (800,))], 2, WHOLE) is None
    assert warning([Variable("a", (1210,)), Variable("b", (790,))], 2, WHOLE) is not None


def test_a_toy_is_never_uneven_and_no_small_model_that_is_left_to_itself() -> None:
    assert warning([Variable("slope", (2,)), Variable("offset", ())], 2, WHOLE) is None
    small = [Variable("slope", (1999,)), Variable("offset", ())]
    assert warning(small, 2, WHOLE) is not None
    assert warning(small, 2, PlacementSettings()) is None


def test_one_ps_or_no_variable_is_never_uneven() -> None:
    assert warning(MODEL, 1, PlacementSettings()) is None
    assert tabulate([], 3, PlacementSettings(), workers=2).warning is None


def test_sizes_are_written_for_people() -> None:
    bytes_ = [format_bytes(count) for count in (0, 999, 1500, 64e6, 3.2e9)]
    assert bytes_ == ["0 B", "999 B", "1.5 kB", "64.0 MB", "3.2 GB"]
    sizes = [format_size(count) for count in (1000, 1 << 10, 3 << 20, 1 << 30)]
    assert sizes == ["1000", "1KiB", "3MiB", "1GiB"]
