"""Saving and restoring a graph's variables.

The format is TensorFlow's (SaveV2): `tf.train.load_checkpoint` and `tf.compat.v1.train.Saver` read
it. Values travel to the process that drives the session and writes them, so a checkpoint is on the
chief's host, also when ps hosts share no file system with it. Sharded, every ps writes and reads
its own part instead, and the chief merges the index. The parts of a partitioned variable are saved
as slices of one tensor under the variable's full name, so a model may be partitioned in another way
when it is restored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from psclust.errors import PsclustError
from psclust.replication.device_layout import host_of
from psclust.replication.tf_types import Operation, Session, Tensor, Variable
from psclust.replication.variables.training_state import PASSING
from psclust.train.checkpoints.checkpoint_folder import CheckpointFolder, reading
from psclust.train.checkpoints.progress import PROGRESS, progress_of
from psclust.train.config import TrainConfig
from psclust.train.nan_guard import all_finite, not_written_error
from psclust.train.session import brief, is_lost_peer, system_reason


@dataclass(frozen=True, slots=True)
class _Entry:
    """A variable in a checkpoint: slice `part` of the tensor `name` of `shape`, in SaveV2's
    notation; empty: the whole tensor."""

    variable: Variable
    name: str
    part: str
    shape: Any


class Checkpoints:
    """The checkpoints of `variables` in `directory`; adds its ops to the current graph. `device` is
    the process that drives the session."""

    def __init__(
        self,
        variables: Sequence[Variable],
        directory: Path,
        device: str,
        config: TrainConfig | None = None,
    ) -> None:
        config = config or TrainConfig()
        self.folder = CheckpointFolder(directory, config.keep, config.keep_every_s)
        self._sharded = config.sharded
        self._entries = [
            entry_of(variable) for variable in variables if variable.op.name not in PASSING
        ]
        self._guard = config.nan_guard
        self._here = host_of(device)
        self._assign: dict[str, Operation] = {}
        # Of each variable that says how far the data is: a placeholder of its value.
        self._progress: dict[str, Tensor] = {}
        with tf.name_scope("checkpoint"):
            with tf.device(self._here):
                self._prefix = tf.compat.v1.placeholder(tf.string, [], name="prefix")
            self._save = self._build_saving()
            self._build_restoring()

    def _build_saving(self) -> Operation:
        values = [_read(entry.variable) for entry in self._entries]
        with tf.device(self._here):
            finite = all_finite([entry.variable for entry in self._entries], values, self._guard)
            if not self._sharded:
                with tf.control_dependencies(finite):
                    return _save(self._prefix, self._entries, values)
        groups: dict[str, list[tuple[_Entry, Any]]] = {}
        for entry, value in zip(self._entries, values, strict=True):
            groups.setdefault(host_of(entry.variable.device), []).append((entry, value))
        names, saves = [], []
        for index, (host, entries) in enumerate(sorted(groups.items())):
            with tf.device(host), tf.control_dependencies(finite):
                names.append(
                    tf.strings.join([self._prefix, f"_parts/part-{index:05d}-of-{len(groups):05d}"])
                )
                saves.append(_save(names[-1], *zip(*entries, strict=True)))
        with tf.device(self._here), tf.control_dependencies(saves):
            return tf.raw_ops.MergeV2Checkpoints(
                checkpoint_prefixes=tf.stack(names),
                destination_prefix=self._prefix,
                delete_old_dirs=True,
            )

    def _build_restoring(self) -> None:
        groups: dict[str, list[_Entry]] = {}
        for entry in self._entries:
            if entry.name in PROGRESS:
                with tf.device(self._here):
                    value = tf.compat.v1.placeholder(tf.int64, entry.shape)
                self._progress[entry.name] = value
                self._assign[entry.variable.op.name] = _assign(entry.variable, value)
            else:
                groups.setdefault(entry.variable.device, []).append(entry)
        for device, entries in groups.items():
            # One op reads all variables of a device: an op for each takes several times as long to
            # build and to run.
            with tf.device(host_of(device) if self._sharded else self._here):
                values = tf.raw_ops.RestoreV2(
                    prefix=self._prefix,
                    tensor_names=[entry.name for entry in entries],
                    shape_and_slices=[entry.part for entry in entries],
                    dtypes=[entry.variable.dtype.base_dtype for entry in entries],
                )
            for entry, value in zip(entries, values, strict=True):
                # `refuse_another_model` compares the shapes before a run.
                value.set_shape(entry.variable.shape)
                self._assign[entry.variable.op.name] = _assign(entry.variable, value)

    def save(self, session: Session, step: int) -> str:
        """Writes `model.ckpt-<step>` and removes old ones. Raises PsclustError if the folder cannot
        be written (the previous checkpoint stays), NotFiniteError for values that are not finite,
        and the session's own error if a server is lost."""
        prefix = self.folder.prefix(step)
        try:
            self.folder.directory.mkdir(parents=True, exist_ok=True)
            session.run(self._save, {self._prefix: prefix})
            self.folder.add(prefix)
        except (OSError, tf.errors.OpError) as error:
            if isinstance(error, tf.errors.OpError) and is_lost_peer(error):
                raise
            refused = not_written_error(error, step)
            if refused is not None:
                raise refused from error
            self._give_up(prefix, step, error)
        return prefix

    def _give_up(self, prefix: str, step: int, error: Exception) -> None:
        latest = self.folder.latest()
        if latest != prefix:
            self.folder.remove(Path(prefix).name)
        reason = system_reason(error) or (
            brief(error) if isinstance(error, tf.errors.OpError) else str(error)
        )
        good = f"the last good one is {Path(latest).name}" if latest else "there is none yet"
        hint = "make room, or choose another --model-dir"
        if self._sharded and isinstance(error, tf.errors.NotFoundError):
            hint = (
                "with sharded=True every ps writes a part, "
                "so the folder must be on a file system that ps and chief share"
            )
        raise PsclustError(
            f"{self.folder.directory}: "
            f"the checkpoint of step {step} cannot be written ({reason}); {good}; {hint}"
        ) from error

    def restore(self, session: Session, prefix: str, first: Collection[str] = ()) -> None:
        """Gives every variable its value in the checkpoint: first those named in `first`, then the
        others. Raises PsclustError if the checkpoint lacks a variable, has it in another shape, or
        is damaged."""
        with reading(prefix):
            reader = tf.train.load_checkpoint(prefix)
        found = reader.get_variable_to_shape_map()
        refuse_another_model(prefix, self._entries, found)
        with reading(prefix):
            feed = {self._prefix: prefix} | {
                value: progress_of(
                    prefix,
                    name,
                    reader.get_tensor(name) if name in found else None,
                    int(value.shape[0]),
                )
                for name, value in self._progress.items()
            }
            for chosen in (True, False):
                session.run(
                    [assign for name, assign in self._assign.items() if (name in first) is chosen],
                    feed,
                )


def entry_of(variable: Variable) -> _Entry:
    """The place of a variable, or of a part of one, in a checkpoint."""
    info = getattr(variable, "_save_slice_info", None)
    if info is None:
        return _Entry(variable, variable.op.name, "", variable.shape)
    return _Entry(variable, info.full_name, info.spec, tf.TensorShape(info.full_shape))


def refuse_another_model(
    prefix: str, entries: Iterable[_Entry], found: dict[str, list[int]]
) -> None:
    """Raises PsclustError if the tensors of a checkpoint, name -> shape, are not the model's."""
    wanted = {entry.name: entry.shape for entry in entries}
    wanted = {name: shape for name, shape in wanted.items() if name not in PROGRESS}
    problems = [f"{name} is missing" for name in wanted if name not in found]
    problems += [
        f"{name} is {found[name]}, the model's {shape.as_list()}"
        for name, shape in wanted.items()
        if name in found and not shape.is_compatible_with(found[name])
    ]
    if problems:
        raise PsclustError(
            f"{prefix} is the checkpoint of another model: {'; '.join(problems)}. "
            "Choose another --model-dir"
        )


def _save(prefix: Tensor, entries: Sequence[_Entry], values: Sequence[Any]) -> Any:
    names, parts = [entry.name for entry in entries], [entry.part for entry in entries]
    return tf.raw_ops.SaveV2(
        prefix=prefix, tensor_names=names, shape_and_slices=parts, tensors=list(values)
    )


def _read(variable: Variable) -> Any:
    with tf.device(variable.device):
        return variable.read_value()


def _assign(variable: Variable, value: Any) -> Any:
    with tf.device(variable.device):
        return variable.assign(value, read_value=False)
