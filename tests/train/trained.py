"""What a training has left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Trained:
    """What a training left: the values of all variables, and its folder."""

    values: Mapping[str, Any]
    model_dir: Path

    @property
    def step(self) -> int:
        return int(self.values["global_step"])


def read_checkpoint(model_dir: Path) -> Trained:
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(model_dir))
    return Trained({name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}, model_dir)
