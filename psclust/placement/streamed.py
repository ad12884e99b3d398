"""Which models' synchronous between-graph steps are streamed: each variable comes back while
gradients of others leave."""

from __future__ import annotations

from collections.abc import Sequence

from psclust.placement.table import format_bytes
from psclust.placement.variable import Variable
from psclust.placement.wire_bytes import SMALL_BYTES

# Smaller models take the wire so little time that the messages of streaming cost more than it
# saves, unless they are partitioned for it.
_STREAMED_BYTES = 1_000_000
_SHARDS_A_PS = 2


def takes_long(whole: Sequence[int], shards: Sequence[int], ps: int) -> bool:
    """Whether a step takes the wire so long that streaming it saves time. whole, shards: bytes of
    each trained variable that is not partitioned, and of each shard of one that is."""
    return (
        sum(whole) + sum(shards) >= _STREAMED_BYTES
        or sum(size > SMALL_BYTES for size in shards) >= _SHARDS_A_PS * ps
    )


def unstreamed(pieces: Sequence[Variable], ps: int) -> str | None:
    """The reason why steps of a model with these variables and shards are not streamed; None if
    they are."""
    trained = [piece for piece in pieces if piece.trained]
    rows = [piece.whole or piece.name for piece in trained if piece.sparse]
    if rows:
        return f"rows of {rows[0]}"
    whole = [piece.bytes for piece in trained if piece.whole is None]
    shards = [piece.bytes for piece in trained if piece.whole is not None]
    if takes_long(whole, shards, ps):
        return None
    return (
        f"less than {format_bytes(_STREAMED_BYTES)} of trained variables, "
        f"in less than {_SHARDS_A_PS} shards a ps"
    )
