"""Saving and restoring a graph's variables, always through the process that drives the session.

Values travel to that process, which writes them with TensorFlow's own SaveV2: a checkpoint is where the chief is, also when ps hosts share
no file system with it, and `tf.train.load_checkpoint` and `tf.compat.v1.train.Saver` read it. A checkpoint is complete before the
`checkpoint` file names it, so a crash leaves the one before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from psclust.errors import PsclustError
from psclust.replication.state import DONE, POSITIONS
from psclust.train.session import brief, is_lost_peer

_KEEP = 5


class Checkpoints:
    """The checkpoints of `variables` in `directory`; adds its ops to the current graph. `device` is the process that reads and writes."""

    def __init__(self, variables: Sequence[Any], directory: Path, device: str) -> None:
        self._directory = directory
        self._shapes = {variable.op.name: variable.shape for variable in variables if variable.op.name != DONE}
        names = list(self._shapes)
        kept = [variable for variable in variables if variable.op.name in self._shapes]
        with tf.name_scope("checkpoint"):
            values = [_read(variable) for variable in kept]
            with tf.device(f"{device}/device:CPU:0"):
                self._prefix = tf.compat.v1.placeholder(tf.string, [], name="prefix")
                self._save = tf.raw_ops.SaveV2(prefix=self._prefix, tensor_names=names, shape_and_slices=[""] * len(names), tensors=values)
                self._restored = {variable.op.name: self._load(variable) for variable in kept}
            self._assign = {variable.op.name: _assign(variable, self._restored[variable.op.name]) for variable in kept}

    def _load(self, variable: Any) -> Any:
        dtype = variable.dtype.base_dtype
        (value,) = tf.raw_ops.RestoreV2(prefix=self._prefix, tensor_names=[variable.op.name], shape_and_slices=[""], dtypes=[dtype])
        return tf.ensure_shape(value, variable.shape)

    def latest(self) -> str | None:
        """The prefix of the last complete checkpoint."""
        return tf.train.latest_checkpoint(str(self._directory))

    def save(self, session: Any, step: int) -> str:
        """Writes `model.ckpt-<step>` and removes all but the last five. Raises PsclustError where the directory cannot be written and
        the session's own error where a server is lost."""
        prefix = str(self._directory / f"model.ckpt-{step}")
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            session.run(self._save, {self._prefix: prefix})
            self._name_latest(prefix)
        except (OSError, tf.errors.OpError) as error:
            if isinstance(error, tf.errors.OpError) and is_lost_peer(error):
                raise
            reason = brief(error) if isinstance(error, tf.errors.OpError) else str(error)
            raise PsclustError(
                f"{self._directory}: the checkpoint of step {step} cannot be written ({reason}); make room, or choose another --model-dir"
            ) from error
        return prefix

    def _name_latest(self, prefix: str) -> None:
        """Replaces the `checkpoint` file, TensorFlow's CheckpointState as text with paths relative to it, and removes what it drops."""
        state = tf.train.get_checkpoint_state(str(self._directory))
        older = [Path(path).name for path in state.all_model_checkpoint_paths] if state else []
        name = Path(prefix).name
        known = [*(path for path in older if path != name), name]
        lines = [f'model_checkpoint_path: "{name}"', *(f'all_model_checkpoint_paths: "{path}"' for path in known[-_KEEP:])]
        aside = self._directory / "checkpoint.new"
        aside.write_text("\n".join(lines) + "\n", encoding="utf-8")
        aside.replace(self._directory / "checkpoint")
        for path in known[:-_KEEP]:
            for file in self._directory.glob(f"{path}.*"):
                file.unlink(missing_ok=True)

    def restore(self, session: Any, prefix: str, first: Collection[str] = ()) -> None:
        """Gives every variable its value in the checkpoint: those named in `first`, and when that is done the rest. Raises PsclustError
        where the checkpoint lacks a variable or has it in another shape."""
        reader = tf.train.load_checkpoint(prefix)
        _refuse_another_model(prefix, self._shapes, reader.get_variable_to_shape_map())
        feed = {self._prefix: prefix}
        if POSITIONS in self._shapes:
            feed[self._restored[POSITIONS]] = spread(reader.get_tensor(POSITIONS), self._shapes[POSITIONS][0])
        for chosen in (True, False):
            session.run([assign for name, assign in self._assign.items() if (name in first) is chosen], feed)


def spread(positions: Any, replicas: int) -> Any:
    """How far each of `replicas` replicas has read when `positions`, int64 [another number], have been read in all: the same total,
    as evenly as it goes."""
    if len(positions) == replicas:
        return positions
    each, over = divmod(int(np.sum(positions)), replicas)
    return np.array([each + (index < over) for index in range(replicas)], np.int64)


def _refuse_another_model(prefix: str, wanted: dict[str, Any], found: dict[str, list[int]]) -> None:
    problems = [f"{name} is missing" for name in wanted if name not in found]
    problems += [
        f"{name} is {found[name]}, the model's {shape.as_list()}"
        for name, shape in wanted.items()
        if name in found and name != POSITIONS and not shape.is_compatible_with(found[name])
    ]
    if problems:
        raise PsclustError(f"{prefix} is the checkpoint of another model: {'; '.join(problems)}. Choose another --model-dir")


def _read(variable: Any) -> Any:
    with tf.device(variable.device):
        return variable.read_value()


def _assign(variable: Any, value: Any) -> Any:
    with tf.device(variable.device):
        return variable.assign(value, read_value=False)
