"""How large variables are partitioned."""

from __future__ import annotations

import pytest

from psclust.placement.partition import Cut, cut, partition, shards
from psclust.placement.variable import Variable


@pytest.mark.parametrize(
    ("shape", "limit", "sizes"),
    [
        ((10, 4), 160, None),
        ((10, 4), 159, (5, 5)),
        ((10, 4), 64, (4, 3, 3)),
        ((10, 4), 16, (1,) * 10),
        ((10, 4), 1, (1,) * 10),
        ((5, 3), 36, (3, 2)),
        ((5, 3), 30, (2, 2, 1)),
        ((7,), 8, (2, 2, 2, 1)),
        ((), 1, None),
        ((0, 4), 1, None),
        ((1, 1), 1, None),
    ],
)
def test_rows_are_spread_evenly_over_as_few_shards_as_fit(
    shape: tuple[int, ...], limit: int, sizes: tuple[int, ...] | None
) -> None:
    assert cut(Variable("v", shape), limit) == (sizes and Cut(0, sizes))


@pytest.mark.parametrize(
    ("shape", "limit", "multiple", "expected"),
    [
        ((3, 3, 8, 16), 1152, 1, Cut(3, (4, 4, 4, 4))),
        ((3, 3, 8, 16), 1536, 1, Cut(0, (1, 1, 1))),
        ((3, 3, 8, 16), 1536, 2, Cut(3, (4, 4, 4, 4))),
        ((3, 3, 16, 8), 1152, 1, Cut(2, (4, 4, 4, 4))),
        ((1, 1, 5), 4, 1, Cut(2, (1,) * 5)),
        ((10, 4), 159, 3, Cut(0, (4, 3, 3))),
        ((10, 4), 100, 2, Cut(0, (5, 5))),
        ((10, 4), 64, 2, Cut(0, (3, 3, 2, 2))),
        ((2, 4), 8, 3, Cut(1, (1,) * 4)),
        ((10, 4), 160, 4, Cut(0, (3, 3, 2, 2))),
        ((3, 3, 8, 16), 2304, 2, Cut(3, (8, 8))),
    ],
)
def test_an_axis_with_too_few_rows_gives_way_and_the_shards_are_a_multiple(
    shape: tuple[int, ...], limit: int, multiple: int, expected: Cut | None
) -> None:
    assert cut(Variable("v", shape), limit, multiple) == expected


@pytest.mark.parametrize("rows", range(2, 40))
@pytest.mark.parametrize("limit", [4, 24, 50, 400])
def test_no_shard_is_over_the_limit_unless_it_is_one_row(rows: int, limit: int) -> None:
    whole = Variable("v", (rows, 1))
    how = cut(whole, limit)
    pieces = shards(whole, how) if how else (whole,)
    assert sum(piece.shape[0] for piece in pieces) == rows
    assert all(piece.bytes <= limit or piece.shape[0] == 1 for piece in pieces)
    heights = [piece.shape[0] for piece in pieces]
    assert heights == sorted(heights, reverse=True)
    assert heights[0] - heights[-1] <= 1


def test_shards_have_the_names_that_tensorflow_gives_them_and_know_their_whole() -> None:
    table = Variable("net/table", (3, 2), sparse=True)
    pieces = shards(table, Cut(0, (1, 1, 1)))
    assert [(piece.name, piece.shape, piece.whole, piece.sparse) for piece in pieces] == [
        ("net/table/part_0", (1, 2), "net/table", True),
        ("net/table/part_1", (1, 2), "net/table", True),
        ("net/table/part_2", (1, 2), "net/table", True),
    ]
    kernel, how = Variable("kernel", (3, 3, 4)), Cut(2, (3, 1))
    assert [piece.shape for piece in shards(kernel, how)] == [(3, 3, 3), (3, 3, 1)]
    assert how.offsets == (0, 3)


def test_what_cannot_be_cut_stays_whole() -> None:
    whole = Variable("kernel", (100, 100), divisible=False)
    assert cut(whole, 8) is None
    assert partition([whole], {}) == [whole]
