"""Partitions variables that are too large for one ps into shards along axis 0, such as an embedding
table by its rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from psclust.placement.variable import Variable


def shard_rows(variable: Variable, max_shard_bytes: int | None) -> tuple[int, ...]:
    """The number of rows of each shard of `variable`; a single number if it stays whole.

    The fewest shards of at most `max_shard_bytes`, but at least one row, and of nearly equal size,
    longer ones first, as TensorFlow's partitioners and its `div` strategy have them.
    """
    whole = (variable.shape[0] if variable.shape else 1,)
    if (
        max_shard_bytes is None
        or variable.bytes <= max_shard_bytes
        or not variable.divisible
        or not variable.shape
    ):
        return whole
    rows = variable.shape[0]
    at_most = max(1, max_shard_bytes // max(1, variable.row_bytes))
    count = -(-rows // at_most)
    each, over = divmod(rows, count)
    return tuple(each + (index < over) for index in range(count))


def shard_name(name: str, index: int) -> str:
    """TensorFlow's name of a shard: `table/part_0`."""
    return f"{name}/part_{index}"


def shards(variable: Variable, max_shard_bytes: int | None) -> tuple[Variable, ...]:
    """The shards of `variable` in order of their rows, or `variable` itself."""
    rows = shard_rows(variable, max_shard_bytes)
    if len(rows) == 1:
        return (variable,)
    return tuple(
        replace(
            variable,
            name=shard_name(variable.name, index),
            shape=(count, *variable.shape[1:]),
            divisible=False,
            whole=variable.name,
        )
        for index, count in enumerate(rows)
    )


def partition(variables: Iterable[Variable], max_shard_bytes: int | None) -> list[Variable]:
    """The shards of all variables, in their order."""
    return [shard for variable in variables for shard in shards(variable, max_shard_bytes)]
