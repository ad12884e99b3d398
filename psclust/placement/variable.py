"""A description of a model variable, without TensorFlow: name, shape and dtype."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_BYTES = {"bool": 1, "string": 8, "resource": 8, "bfloat16": 2, "half": 2}


def dtype_bytes(dtype: str) -> int:
    """Bytes of one element of a TensorFlow dtype: 4 for `float32`. A string counts as its pointer;
    an unknown dtype as 4."""
    if dtype in _BYTES:
        return _BYTES[dtype]
    if dtype.startswith("float8"):
        return 1
    bits = re.search(r"(\d+)$", dtype)
    return max(1, int(bits[1]) // 8) if bits else 4


@dataclass(frozen=True, slots=True)
class Variable:
    """name: without `:0`. shape: fully known. dtype: TensorFlow's name, such as `float32`.

    trained: it gets a gradient. sparse: the gradient has some rows only (IndexedSlices); None:
    unknown. rows: how many rows a step touches in each replica, if the graph shows it. divisible:
    it may be partitioned (made with `get_variable`).
    whole: the name of the variable that this one is a shard of. shards: how many that has; 0 of a
    whole one.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    trained: bool = True
    sparse: bool | None = None
    rows: int | None = None
    divisible: bool = True
    whole: str | None = None
    shards: int = 0

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * dtype_bytes(self.dtype)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Variable:
        return cls(**{**data, "shape": tuple(data["shape"])})
