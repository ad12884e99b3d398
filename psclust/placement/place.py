"""The placement of a model's variables: pins first, then the policy."""

from __future__ import annotations

from collections.abc import Iterable

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
