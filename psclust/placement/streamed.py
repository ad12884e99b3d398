"""Which models' synchronous between-graph steps are streamed: each variable comes back while gradients of others leave."""

from __future__ import annotations

from collections.abc import Sequence

from psclust.placement.table import format_bytes
from psclust.placement.variable import Variable

# Smaller models take the wire so little time that the messages of streaming cost more than it saves.
STREAMED_BYTES = 1_000_000


def unstreamed(variables: Sequence[Variable]) -> str | None:
    """What about a model's variables keeps its steps from being streamed; None if nothing does."""
    trained = [variable for variable in variables if variable.trained]
    rows = [variable.name for variable in trained if variable.sparse]
    if rows:
        return f"rows of {rows[0]}"
    small = sum(variable.bytes for variable in trained) < STREAMED_BYTES
    return f"less than {format_bytes(STREAMED_BYTES)} of trained variables" if small else None
