"""The placement of a model's variables: pins first, then the policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from psclust.placement.placement_settings import PlacementSettings
from psclust.placement.policies import POLICIES
from psclust.placement.variable import Variable


def place(variables: Iterable[Variable], ps: int, settings: PlacementSettings) -> dict[str, int]:
    """name -> ps index of all variables, which are partitioned already. Raises UsageError for a pin
    beyond the last ps."""
    settings.check(ps)
    pinned: dict[str, int] = {}
    free: list[Variable] = []
    load = [0] * ps
    for variable in variables:
        index = settings.pinned(variable.name, variable.whole)
        if index is None:
            free.append(variable)
        else:
            pinned[variable.name] = index
            load[index] += variable.bytes
    return pinned | POLICIES[settings.policy](free, load)


def bytes_of_ps(variables: Iterable[Variable], placed: Mapping[str, int], ps: int) -> list[int]:
    """The bytes on each ps. placed: as of `place`."""
    totals = [0] * ps
    for variable in variables:
        totals[placed[variable.name]] += variable.bytes
    return totals


def imbalance(totals: Sequence[int]) -> float:
    """The largest total over the mean: 1 is even, the number of ps means that one holds all."""
    total = sum(totals)
    return max(totals) * len(totals) / total if total else 1.0
