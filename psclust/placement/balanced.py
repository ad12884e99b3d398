"""The placement policy `balanced`: the greedy rule for scheduling independent jobs (R. Graham, 1969; at most 4/3 of the best)."""

from __future__ import annotations

from collections.abc import Sequence

from psclust.placement.variable import Variable


def balanced(variables: Sequence[Variable], load: Sequence[int]) -> dict[str, int]:
    """By bytes, the largest first, onto the ps that holds least."""
    loads, placed = list(load), {}
    # Ties go by name, so the order in which a client creates its variables does not matter.
    for variable in sorted(variables, key=lambda variable: (-variable.bytes, variable.name)):
        index = min(range(len(loads)), key=loads.__getitem__)
        loads[index] += variable.bytes
        placed[variable.name] = index
    return placed
