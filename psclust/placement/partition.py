"""Cutting variables that are too large for one ps into shards along axis 0: an embedding table is cut by rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from psclust.placement.variable import Variable


def shard_rows(variable: Variable, max_shard_bytes: int | None) -> tuple[int, ...]:
    """How many rows each shard of `variable` gets; one number where it stays whole.

    As few shards as keep each within `max_shard_bytes`, a row at least, and as equal as it goes, the longer ones first: what TensorFlow's
    own partitioners and its `div` strategy do.
    """
    whole = (variable.shape[0] if variable.shape else 1,)
    if max_shard_bytes is None or variable.bytes <= max_shard_bytes or not variable.divisible or not variable.shape:
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
    """`variable` itself, or its shards in order of their rows."""
    rows = shard_rows(variable, max_shard_bytes)
    if len(rows) == 1:
        return (variable,)
    return tuple(
        replace(variable, name=shard_name(variable.name, index), shape=(count, *variable.shape[1:]), divisible=False, whole=variable.name)
        for index, count in enumerate(rows)
    )


def partition(variables: Iterable[Variable], max_shard_bytes: int | None) -> list[Variable]:
    """All variables in their order, each as its shards."""
    return [shard for variable in variables for shard in shards(variable, max_shard_bytes)]
