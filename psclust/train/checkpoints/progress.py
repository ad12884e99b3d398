"""How far the data is, as a checkpoint has it, for a training whose data is divided in another
way."""

from __future__ import annotations

from typing import Any

import numpy as np

from psclust.errors import PsclustError
from psclust.replication.parts.dispenser import PART_BATCHES, PART_EPOCHS
from psclust.replication.variables.training_state import POSITIONS

PROGRESS = frozenset({POSITIONS, PART_BATCHES, PART_EPOCHS})
"""The variables that say it."""


def progress_of(prefix: str, name: str, found: Any, size: int) -> Any:
    """The value, int64 [size], of the variable `name` of PROGRESS, from that of the checkpoint
    `prefix`: int64 [any]; None: the training before divided its data otherwise, and this one begins
    it anew. Raises PsclustError if there were more parts than `size`."""
    if found is None:
        return np.zeros([size], np.int64)
    if name == POSITIONS:
        return spread(found, size)
    if len(found) > size:
        raise PsclustError(
            f"{prefix}: its data had {len(found)} parts, and data_parts has {size}: "
            "leave the old ones where they are and append new ones, or choose another --model-dir"
        )
    return np.concatenate([found, np.zeros([size - len(found)], np.int64)])


def spread(positions: Any, replicas: int) -> Any:
    """`positions`, int64 [another number of replicas], for `replicas` replicas: the same total,
    spread as evenly as possible."""
    if len(positions) == replicas:
        return positions
    each, over = divmod(int(np.sum(positions)), replicas)
    return np.array([each + (index < over) for index in range(replicas)], np.int64)
