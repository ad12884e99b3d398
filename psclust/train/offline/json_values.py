"""Values that TensorFlow computed, as JSON can say them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def as_json(value: Any) -> Any:
    """A value as JSON can say it: arrays as lists, bytes as text, and null for what is not finite."""
    if isinstance(value, dict):
        return {name: as_json(part) for name, part in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return as_json(value.tolist())
    if isinstance(value, list):
        return [as_json(part) for part in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    return None if isinstance(value, float) and not math.isfinite(value) else value
