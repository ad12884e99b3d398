"""The variables of a training may have been elsewhere before: where they are, and were."""

from __future__ import annotations

from dataclasses import dataclass

VARIABLES = "PSCLUST_VARIABLES"
"""The variable by which a program learns it, as JSON."""


@dataclass(frozen=True, slots=True)
class VariablesHome:
    """In a container of TensorFlow's, which keeps variables apart from those of other placements on
    the same servers. before, ps: the container that they come from, and the addresses of the ps
    that have it; none: they begin here. See `psclust.plan.variables_home`."""

    container: str = ""
    before: str = ""
    ps: tuple[str, ...] = ()
