"""The table of ways to reach hosts."""

from __future__ import annotations

from typing import get_args

from psclust.reach.ways import WAYS
from psclust.spec.cluster_file import ReachBy


def test_every_way_that_a_cluster_file_may_name_is_in_the_table() -> None:
    assert set(WAYS) == set(get_args(ReachBy))
    for way in WAYS.values():
        assert callable(way().connect)
        assert callable(way().open_tunnel)
