"""Converting values that TensorFlow computed to JSON."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def as_json(value: Any) -> Any:
    """A value for `json.dumps`: arrays as lists, bytes as text, numbers that are not finite as
    None."""
    if isinstance(value, dict):
        return {name: as_json(part) for name, part in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return as_json(value.tolist())
    if isinstance(value, list):
        return [as_json(part) for part in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    return None if isinstance(value, float) and not math.isfinite(value) else value
