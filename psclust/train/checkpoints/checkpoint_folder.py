"""The folder of a model's checkpoints: it lists them, makes a complete one the latest, and removes
old ones.

The `checkpoint` file is TensorFlow's CheckpointState as text, with paths relative to the folder. It
is replaced only when a checkpoint is complete, so a crash or a full disk leaves the previous one.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from psclust.errors import PsclustError
from psclust.placement.table import format_bytes
from psclust.rundir.atomic_file import write_atomically
from psclust.train.session import is_lost_peer

# Of a checkpoint's size: what must be free for the next one.
_MARGIN = 1.1
_STATE = "checkpoint"
_NUMBERED = re.compile(r".*-\d{1,18}", re.DOTALL)
# Files' names have 255 bytes at most, and theirs end in `.data-00000-of-00001`.
_LONGEST_NAME = 200
_PART = re.compile(r"\.data-\d+-of-(\d{1,6})$")

# What TensorFlow raises for a checkpoint that is cut off, altered or not all there.
_UNREADABLE = (tf.errors.OpError, RuntimeError, ValueError, LookupError, OSError)


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
        """The prefix of the last complete checkpoint. Raises PsclustError if there are some, and
        the file `checkpoint` does not tell which is the last: a training that began anew would lose
        them."""
        state = self._state()
        if state is None:
            return None
        prefix = str(state.model_checkpoint_path)
        if prefix and _is_complete(Path(prefix)):
            return prefix
        if self._complete():
            raise self._unreadable("it names no checkpoint that is there")
        return None

    def listed(self) -> Sequence[Listed]:
        """The last checkpoints, oldest first, without those kept for good, and without files of
        others. Raises PsclustError."""
        state = self._state()
        if state is None:
            return []
        paths = list(state.all_model_checkpoint_paths)
        times = [*[0.0] * len(paths), *state.all_model_checkpoint_timestamps][-len(paths) :]
        found = (Listed(Path(path).name, when) for path, when in zip(paths, times, strict=False))
        return [each for each in found if _is_name(each.name)]

    def add(self, prefix: str) -> None:
        """Makes a complete checkpoint the latest, then removes old ones. Raises OSError, and
        PsclustError if the file `checkpoint` is not TensorFlow's."""
        state = self._state()
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
        write_atomically(self.directory / _STATE, "\n".join(lines) + "\n")
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
        name = glob.escape(name)
        for path in [*self.directory.glob(f"{name}.*"), *self.directory.glob(f"{name}_parts")]:
            _remove(path)

    def _state(self) -> Any:
        """TensorFlow's CheckpointState; None without the file. Raises PsclustError."""
        for _ in range(2):  # the file may have been made since the first look
            try:
                state = tf.train.get_checkpoint_state(str(self.directory))
            except ValueError as error:  # no UTF-8
                raise self._unreadable(f"it is not text: {error}") from None
            if state is not None or not os.path.lexists(self.directory / _STATE):
                return state
        raise self._unreadable("it is not TensorFlow's, or cut off")

    def _complete(self) -> list[str]:
        """The names of all complete checkpoints, the one with the most steps last."""
        names = (path.stem for path in self.directory.glob("*.index"))
        found = [name for name in names if _is_name(name)]
        complete = [name for name in found if _is_complete(self.directory / name)]
        return sorted(complete, key=lambda name: Listed(name, 0.0).step)

    def _unreadable(self, why: str) -> PsclustError:
        last = self._complete()[-1:]
        remedy = (
            f'write `model_checkpoint_path: "{last[0]}"` into it to go on from there, or'
            if last
            else "remove it, or"
        )
        return PsclustError(
            f"{self.directory / _STATE} does not name the last checkpoint: {why}; {remedy} choose "
            "another --model-dir"
        )


class DamagedCheckpointError(PsclustError):
    """A checkpoint that cannot be read."""

    def __init__(self, prefix: str, error: Exception) -> None:
        text = str(getattr(error, "message", error)).strip().splitlines()
        super().__init__(
            f"{prefix} is damaged, or a part of it is missing ({text[0] if text else 'no reason'}"
            f"); write the name of an earlier one into {_STATE!r} beside it, or choose another "
            "--model-dir"
        )


@contextmanager
def reading(prefix: str) -> Iterator[None]:
    """What cannot be read inside raises DamagedCheckpointError. A server that is lost meanwhile
    does not."""
    try:
        yield
    except _UNREADABLE as error:
        if isinstance(error, tf.errors.OpError) and is_lost_peer(error):
            raise
        raise DamagedCheckpointError(prefix, error) from error


def _is_name(name: str) -> bool:
    """Whether it is that of a checkpoint, which its step ends."""
    return _NUMBERED.fullmatch(name) is not None and len(os.fsencode(name)) <= _LONGEST_NAME


def _is_complete(prefix: Path) -> bool:
    """Whether all its files are there; TensorFlow writes the index last. Old checkpoints are one
    file."""
    try:
        if prefix.is_file():
            return True
        parts = {path.name for path in prefix.parent.glob(f"{glob.escape(prefix.name)}.data-*")}
        counts = [_PART.search(name) for name in parts]
        return prefix.with_name(f"{prefix.name}.index").is_file() and any(
            found is not None and len(parts) >= int(found[1]) for found in counts
        )
    except (OSError, ValueError):
        return False


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
