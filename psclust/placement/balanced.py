"""The placement policy `balanced`: the greedy rule for scheduling independent jobs (R. Graham,
1969; at most 4/3 of the best)."""

from __future__ import annotations

from collections.abc import Sequence

from psclust.placement.variable import Variable

# A ps that holds variables costs every worker a run and messages a step, more than these bytes take
# on the way from a ps that holds fifty times as many anyway.
NOT_WORTH_A_PS_BYTES = 64_000
NOT_WORTH_A_PS_SHARE = 0.02


def balanced(variables: Sequence[Variable], load: Sequence[int]) -> dict[str, int]:
    """By bytes, the largest first, onto the ps that holds least; what is left when it is next to
    nothing, onto one that holds some."""
    loads, placed = list(load), {}
    left = sum(variable.bytes for variable in variables)
    # Ties go by name, so the order in which a client creates its variables does not matter.
    for variable in sorted(variables, key=lambda variable: (-variable.bytes, variable.name)):
        next_to_nothing = left < min(NOT_WORTH_A_PS_BYTES, NOT_WORTH_A_PS_SHARE * max(loads))
        index = min(
            (ps for ps in range(len(loads)) if loads[ps] or not next_to_nothing),
            key=loads.__getitem__,
        )
        loads[index] += variable.bytes
        left -= variable.bytes
        placed[variable.name] = index
    return placed
