"""Partitions variables that are too large for one ps into shards along one axis, such as an
embedding table by its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate

from psclust.placement.variable import Variable

# With so many indices of their axis, the longer ones of several shards are not much longer.
_EQUAL = 10


@dataclass(frozen=True, slots=True)
class Cut:
    """How a variable is partitioned. sizes: the length of each shard along `axis`, longer ones
    first, as TensorFlow's partitioners and its `div` strategy have them."""

    axis: int
    sizes: tuple[int, ...]

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where each shard begins along `axis`."""
        return tuple(accumulate(self.sizes, initial=0))[:-1]

    def shape(self, whole: tuple[int, ...], index: int) -> tuple[int, ...]:
        """The shape of shard number `index` of a variable of the shape `whole`."""
        return (*whole[: self.axis], self.sizes[index], *whole[self.axis + 1 :])


def cut(variable: Variable, shard_bytes: int, multiple: int = 1) -> Cut | None:
    """The fewest shards of nearly equal size that have at most `shard_bytes`, or one index of their
    axis; None if `variable` stays whole. multiple: the number of shards is one of this, if an axis
    is long enough.

    Rows are cut, unless there are too few of them, as of a convolution's kernel: then the longest
    axis is.
    """
    if not variable.divisible or not variable.elements or not variable.shape:
        return None
    longest = variable.shape.index(max(variable.shape))
    for axis in (0, longest):
        length = variable.shape[axis]
        at_most = max(1, shard_bytes * length // variable.bytes)
        count = -(-length // (at_most * multiple)) * multiple
        small_enough = count <= length and variable.bytes <= shard_bytes * length
        nearly_equal = length % count == 0 or length >= _EQUAL * count
        if small_enough and (multiple == 1 or nearly_equal):
            return into(variable, count, axis)
    return into(variable, count, longest)


def into(variable: Variable, count: int, axis: int = 0) -> Cut | None:
    """So many shards of nearly equal size, or as many as `axis` can have; None if `variable` stays
    whole."""
    if not variable.divisible or not variable.shape:
        return None
    count = min(count, variable.shape[axis])
    if count < 2:
        return None
    each, over = divmod(variable.shape[axis], count)
    return Cut(axis, tuple(each + (index < over) for index in range(count)))


def shard_name(name: str, index: int) -> str:
    """TensorFlow's name of a shard: `table/part_0`."""
    return f"{name}/part_{index}"


def shard_number(name: str) -> int:
    """0 for `table/part_0`."""
    return int(name.rpartition("_")[2])


def shards(variable: Variable, how: Cut) -> tuple[Variable, ...]:
    """The shards of `variable`, in order."""
    return tuple(
        replace(
            variable,
            name=shard_name(variable.name, index),
            shape=how.shape(variable.shape, index),
            divisible=False,
            whole=variable.name,
            shards=len(how.sizes),
        )
        for index in range(len(how.sizes))
    )


def partition(variables: Iterable[Variable], cuts: Mapping[str, Cut]) -> list[Variable]:
    """The shards of the variables in `cuts`, by name, and the others, in their order."""
    pieces: list[Variable] = []
    for variable in variables:
        how = cuts.get(variable.name)
        pieces += [variable] if how is None else shards(variable, how)
    return pieces
