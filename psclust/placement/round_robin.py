"""The placement policy `round_robin`, TensorFlow's own."""

from __future__ import annotations

from collections.abc import Sequence

from psclust.placement.variable import Variable


def round_robin(variables: Sequence[Variable], load: Sequence[int]) -> dict[str, int]:
    """Each variable on the next ps, in the order in which the model makes them, as in
    TensorFlow."""
    return {variable.name: index % len(load) for index, variable in enumerate(variables)}
