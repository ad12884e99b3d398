"""In how many bytes a variable's values travel."""

from __future__ import annotations

import math

from psclust.placement.variable import Variable, dtype_bytes

# Up to this size, copying a tensor costs less than a message of its own.
SMALL_BYTES = 32 * 1024
# The most values of int8 that share a scale, a float32.
_BLOCK = 1024


def wire_bytes(
    variable: Variable, elements: int, wire_dtype: str | None, *, in_blocks: bool
) -> int:
    """Bytes of `elements` of the variable. Only float32 travels as `wire_dtype`, and as int8 only
    what is dense, large and sent `in_blocks`; the rest is bfloat16 then."""
    if wire_dtype is None or variable.dtype != "float32":
        return elements * dtype_bytes(variable.dtype)
    if wire_dtype != "int8":
        return elements * dtype_bytes(wire_dtype)
    if in_blocks and not variable.sparse and variable.bytes > SMALL_BYTES:
        rows, block = blocks_of(elements)
        return rows * (block + dtype_bytes("float32"))
    return elements * dtype_bytes("bfloat16")


def blocks_of(count: int) -> tuple[int, int]:
    """(blocks, values in each) in which `count` values travel as int8: without padding where a
    block need not be small for it."""
    block = next((size for size in range(_BLOCK, _BLOCK // 4, -1) if count % size == 0), _BLOCK)
    return math.ceil(count / block), block
