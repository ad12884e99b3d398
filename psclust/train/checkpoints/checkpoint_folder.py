"""The folder of a model's checkpoints: it lists them, makes a complete one the latest, and removes
old ones.

The `checkpoint` file is TensorFlow's CheckpointState as text, with paths relative to the folder. It
is replaced only when a checkpoint is complete, so a crash or a full disk leaves the previous one.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from psclust.errors import PsclustError
from psclust.placement.table import format_bytes
from psclust.rundir.atomic_file import write_atomically

# Of a checkpoint's size: what must be free for the next one.
_MARGIN = 1.1


@dataclass(frozen=True, slots=True)
class Listed:
    """One checkpoint: the last part of its prefix, and the time of writing, in seconds since
    1970."""

    name: str
    time: float

    @property
    def step(self) -> int:
        return int(self.name.rpartition("-")[2])


class CheckpointFolder:
    """Keeps the last `keep` checkpoints and, for good, one for every `keep_every_s` seconds."""

    def __init__(
        self,
        directory: Path,
        keep: int = 5,
        keep_every_s: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.directory = directory
        self._keep = keep
        self._keep_every_s = keep_every_s
        self._clock = clock

    def check_writable(self) -> None:
        """Creates the folder; raises PsclustError if no file can be written there."""
        probe = self.directory / f".psclust-{os.getpid()}"
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            probe.write_bytes(b"\0" * 4096)
            probe.unlink()
        except OSError as error:
            with suppress(OSError):
                probe.unlink()
            raise PsclustError(
                f"{self.directory}: checkpoints cannot be written there ({error.strerror}); "
                "choose another --model-dir"
            ) from error

    def tidy(self) -> None:
        """Removes the leftovers of a process that was killed while writing. To be called by the
        process that writes."""
        for pattern in ("model.ckpt-*.tempstate*", "model.ckpt-*_parts", ".checkpoint.*"):
            for path in self.directory.glob(pattern):
                _remove(path)

    def prefix(self, step: int) -> str:
        """The prefix of the checkpoint of `step`."""
        return str(self.directory / f"model.ckpt-{step}")

    def latest(self) -> str | None:
        """The prefix of the last complete checkpoint."""
        return tf.train.latest_checkpoint(str(self.directory))

    def listed(self) -> Sequence[Listed]:
        """The last checkpoints, oldest first, without those kept for good."""
        state = tf.train.get_checkpoint_state(str(self.directory))
        if state is None:
            return []
        times = list(state.all_model_checkpoint_timestamps)
        times = [0.0] * (len(state.all_model_checkpoint_paths) - len(times)) + times
        return [
            Listed(Path(path).name, when)
            for path, when in zip(state.all_model_checkpoint_paths, times, strict=True)
        ]

    def add(self, prefix: str) -> None:
        """Makes a complete checkpoint the latest, then removes old ones. Raises OSError."""
        state = tf.train.get_checkpoint_state(str(self.directory))
        preserved = float(state.last_preserved_timestamp) if state else 0.0
        new = Listed(Path(prefix).name, self._clock())
        known = [*(old for old in self.listed() if old.name != new.name), new]
        stay, go = known[-self._keep :], []
        for old in known[: -self._keep]:
            preserved = preserved or old.time
            if self._keep_every_s is not None and old.time >= preserved + self._keep_every_s:
                preserved = old.time
            else:
                go.append(old)
        lines = [f'model_checkpoint_path: "{new.name}"']
        lines += [f'all_model_checkpoint_paths: "{entry.name}"' for entry in stay]
        lines += [f"all_model_checkpoint_timestamps: {entry.time!r}" for entry in stay]
        lines += [f"last_preserved_timestamp: {preserved!r}"]
        write_atomically(self.directory / "checkpoint", "\n".join(lines) + "\n")
        for old in go:
            self.remove(old.name)

    def shortage(self) -> str | None:
        """A sentence if the disk has no room for another checkpoint as large as the latest. Old
        ones make no room: they are removed when the new one is complete."""
        latest = self.latest()
        if latest is None:
            return None
        try:
            parts = self.directory.glob(f"{Path(latest).name}.*")
            size = sum(path.stat().st_size for path in parts)
            free = shutil.disk_usage(self.directory).free
        except OSError:
            return None
        if free >= size * _MARGIN:
            return None
        return (
            f"{self.directory}: the next checkpoint will not fit: {format_bytes(free)} are free, "
            f"and the last one has {format_bytes(size)}. Make room; the training goes on meanwhile"
        )

    def remove(self, name: str) -> None:
        """Removes the files of one checkpoint, complete or not."""
        for path in [*self.directory.glob(f"{name}.*"), *self.directory.glob(f"{name}_parts")]:
            _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
