"""Which variables are partitioned, by the setting `max_shard_bytes`: a size, `none`, or `auto`.

`auto` makes round robin even. A large variable becomes a number of shards that every ps has an
equal part of, so the small ones in between take turns as if it were not there. How far down that
has to go depends on the model, and so does what a table is; so a graph is cut by a first guess,
variable by variable, and built again where all variables together say otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from psclust.placement.partition import Cut, cut, into, partition
from psclust.placement.place import bytes_of_ps, imbalance, place
from psclust.placement.placement_settings import AUTO, NONE, PlacementSettings
from psclust.placement.variable import Variable

# Within 5 % of the best size for dense variables at 1 and at 10 Gbit/s (docs/performance.md).
_SHARD_BYTES = 1_000_000
# A ps that holds less is done with a step so soon that more messages only make it later.
_SMALL_BYTES = 150_000
# Variables that are smaller than so many bytes for each ps stay whole: the first of these numbers
# with which no ps holds more than `_EVEN` times the mean.
_LEAST_BYTES = (math.inf, 64_000, 32_000, 16_000, 8_000, 4_000)
_EVEN = 1.1
# More rows than a dense layer has inputs.
_ROWS_OF_A_TABLE = 20_000


def cuts(variables: Sequence[Variable], ps: int, settings: PlacementSettings) -> dict[str, Cut]:
    """The cut of each variable that is partitioned, by name. Depends on names, shapes, dtypes and
    on which variables are tables, in the order in which the model makes them."""
    limit = settings.max_shard_bytes
    if limit == NONE:
        return {}
    if limit != AUTO:
        return _by_name((each, cut(each, limit)) for each in variables)
    if are_small(variables, ps):
        return {}
    trained = [each for each in variables if each.trained]
    found: list[tuple[float, dict[str, Cut]]] = []
    for least in _LEAST_BYTES:
        made = _by_name((each, _automatic(each, ps, least, each.sparse)) for each in trained)
        pieces = partition(variables, made)
        uneven = imbalance(bytes_of_ps(pieces, place(pieces, ps, settings), ps))
        found.append((uneven, made))
        if uneven <= _EVEN:
            break
    return min(found, key=lambda each: each[0])[1]


def are_small(variables: Sequence[Variable], ps: int) -> bool:
    """Whether each ps has so little of them that `auto` partitions none."""
    return sum(each.bytes for each in variables if each.trained) <= ps * _SMALL_BYTES


def guess(variable: Variable, ps: int, settings: PlacementSettings) -> Cut | None:
    """The cut of a variable that is being made, when the others are not known, nor whether it is a
    table."""
    if settings.max_shard_bytes != AUTO:
        return cuts([variable], ps, settings).get(variable.name)
    table = bool(variable.shape) and variable.shape[0] >= _ROWS_OF_A_TABLE
    return _automatic(variable, ps, math.inf, table) if variable.trained else None


def _automatic(variable: Variable, ps: int, least: float, table: bool | None) -> Cut | None:
    """An equal part of a large variable for every ps. Of a table only the rows that a step needs
    travel, so one shard for each ps is enough."""
    if variable.bytes <= _SHARD_BYTES and variable.bytes < ps * least:
        return None
    return into(variable, ps) if table else cut(variable, _SHARD_BYTES, ps)


def _by_name(found: Iterable[tuple[Variable, Cut | None]]) -> dict[str, Cut]:
    return {variable.name: how for variable, how in found if how is not None}
