"""How large variables are partitioned."""

from __future__ import annotations

import pytest

from psclust.placement.partition import partition, shard_rows, shards
from psclust.placement.variable import Variable


@pytest.mark.parametrize(
    ("shape", "limit", "rows"),
    [
        ((10, 4), None, (10,)),
        ((10, 4), 160, (10,)),
        ((10, 4), 159, (5, 5)),
        ((10, 4), 64, (4, 3, 3)),
        ((10, 4), 16, (1,) * 10),
        ((10, 4), 1, (1,) * 10),
        ((5, 3), 36, (3, 2)),
        ((5, 3), 30, (2, 2, 1)),
        ((7,), 8, (2, 2, 2, 1)),
        ((), 1, (1,)),
        ((0, 4), 1, (0,)),
    ],
)
def test_rows_are_spread_evenly_over_as_few_shards_as_fit(
    shape: tuple[int, ...], limit: int | None, rows: tuple[int, ...]
) -> None:
    assert shard_rows(Variable("v", shape), limit) == rows


@pytest.mark.parametrize("rows", range(1, 40))
@pytest.mark.parametrize("limit", [4, 24, 50, 400])
def test_no_shard_is_over_the_limit_unless_it_is_one_row(rows: int, limit: int) -> None:
    pieces = shards(Variable("v", (rows, 3)), limit)
    assert sum(piece.shape[0] for piece in pieces) == rows
    assert all(piece.bytes <= limit or piece.shape[0] == 1 for piece in pieces)
    heights = [piece.shape[0] for piece in pieces]
    assert heights == sorted(heights, reverse=True)
    assert heights[0] - heights[-1] <= 1


def test_shards_have_the_names_that_tensorflow_gives_them_and_know_their_whole() -> None:
    table = Variable("net/table", (3, 2), sparse=True)
    assert [(piece.name, piece.shape, piece.whole, piece.sparse) for piece in shards(table, 8)] == [
        ("net/table/part_0", (1, 2), "net/table", True),
        ("net/table/part_1", (1, 2), "net/table", True),
        ("net/table/part_2", (1, 2), "net/table", True),
    ]


def test_what_cannot_be_cut_stays_whole() -> None:
    whole = Variable("kernel", (100, 100), divisible=False)
    assert partition([whole], 8) == [whole]
