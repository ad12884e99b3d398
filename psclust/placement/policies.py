"""Placement policies: rules that choose the ps of each variable, from names, shapes and dtypes
alone.

To add one, write it in a file of its own and add it to `POLICIES`; the cluster file, the command
line and their help list it from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from psclust.placement.balanced import balanced
from psclust.placement.round_robin import round_robin
from psclust.placement.variable import Variable

# (variables that no pin places, bytes already on each ps) -> name -> ps index. The docstring is the
# help that users read.
Policy = Callable[[Sequence[Variable], Sequence[int]], dict[str, int]]
POLICIES: Mapping[str, Policy] = {"round_robin": round_robin, "balanced": balanced}
# The default, TensorFlow's own, and the only policy that places variables as they are created; the
# others need to know all of them first.
ROUND_ROBIN = "round_robin"
BALANCED = "balanced"


def render_policies() -> str:
    """`name: description` of every policy, for help texts."""
    texts = {
        name: " ".join(str(policy.__doc__).split()).rstrip(".") for name, policy in POLICIES.items()
    }
    return "; ".join(f"{name}: {text[0].lower()}{text[1:]}" for name, text in texts.items())
