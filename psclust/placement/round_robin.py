"""The placement policy `round_robin`, TensorFlow's own."""

from __future__ import annotations

from collections.abc import Sequence

from psclust.placement.partition import shard_number
from psclust.placement.variable import Variable


def round_robin(variables: Sequence[Variable], load: Sequence[int]) -> dict[str, int]:
    """Each variable on the next ps, in the order in which the model makes them, as in
    TensorFlow."""
    return {
        variable.name: in_turn(before, len(load), variable.name, variable.shards)
        for before, variable in enumerate(variables)
    }


def in_turn(before: int, ps: int, name: str, shards: int) -> int:
    """The ps of a variable, `before` being how many were placed before it. shards: of how many it
    is one; 0: it is whole."""
    if shards != ps:
        return before % ps
    number = shard_number(name)
    return (before - number + _halved(number, ps)) % ps


def _halved(number: int, ps: int) -> int:
    """One shard a ps, in such an order that each ps gives half of what it has to a new one when
    there are twice as many, and nothing else moves."""
    if ps % 2:
        return number
    return _halved(number // 2, ps // 2) + number % 2 * (ps // 2)
