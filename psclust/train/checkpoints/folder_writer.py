"""A model folder has one writer: two trainings that write their checkpoints into one folder would
mix them.

The writer holds a lease, the file `writer.json` with a number that it raises every two seconds.
Another training waits until the file is gone, its process has ended, or the number has stood still
for ten seconds: on other hosts no pid counts, and clocks may differ. A later attempt of the same
run takes the lease over at once, as psclust starts none while the one before may be alive.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from psclust.errors import PsclustError
from psclust.rundir.atomic_file import write_atomically
from psclust.spec.typed_json import build, parse_json

LOG = logging.getLogger(__name__)

_RENEW_S = 2.0
_LEASE_S = 10.0
_PATIENCE_S = 60.0
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Writer:
    """machine, process: where it runs and which process it is, to tell whether it is alive. number:
    how often it has renewed its lease."""

    run: str
    task: str
    host: str
    machine: str
    process: tuple[int, int]
    number: int = 0

    @classmethod
    def here(cls, run: str, task: str) -> Writer:
        return cls(
            run, task, socket.gethostname(), _machine(), (os.getpid(), _started(os.getpid()) or 0)
        )

    @property
    def is_gone(self) -> bool:
        """Whether it was a process of this machine, and has ended."""
        return self.machine == _machine() and _started(self.process[0]) != self.process[1]

    def is_same(self, other: Writer | None) -> bool:
        return other is not None and replace(other, number=0) == replace(self, number=0)


class FolderLease:
    """The lease of `writer` on the folder at `directory`."""

    def __init__(self, directory: Path, writer: Writer) -> None:
        self._path = directory / "writer.json"
        self._directory = directory
        self._writer = writer
        self._over = threading.Event()

    def take(self) -> None:
        """Waits for another writer. Raises PsclustError if that writes on for a minute."""
        while not self._try():
            pass
        threading.Thread(target=self._keep, name="lease of the model folder", daemon=True).start()

    def _try(self) -> bool:
        """Take the lease, perhaps over; whether no other training was sooner."""
        created = _read(self._path) is None and self._create()
        other = _read(self._path)
        if created or (other is not None and other.run == self._writer.run):
            self._renew()
            return True
        if other is not None and not other.is_gone:
            LOG.info("%s: %s; waiting for its end", self._directory, _describe(other))
            self._await_end(other)
        self._renew()
        # Others may have waited for the same end: the last one to write has it.
        time.sleep(_POLL_S)
        return self._writer.is_same(_read(self._path) or self._writer)

    def _create(self) -> bool:
        """Make the file, complete at once; False if there is one."""
        mine = self._path.with_name(f".{self._path.name}.{uuid.uuid4().hex}")
        try:
            mine.write_text(json.dumps(asdict(self._writer)), encoding="utf-8")
            os.link(mine, self._path)
        except FileExistsError:
            return False
        except OSError as error:  # a full disk, or a file system without links
            LOG.debug("%s: %s", self._path, error.strerror)
        finally:
            with suppress(OSError):
                mine.unlink(missing_ok=True)
        return True

    def check(self) -> None:
        """To be called before a file is written. Raises PsclustError if another writer has taken
        the lease over."""
        other = _read(self._path)
        if other is not None and not self._writer.is_same(other):
            raise PsclustError(
                f"{self._directory}: {_describe(other)} since this training was stopped for a "
                "while; it writes nothing more"
            )

    def release(self) -> None:
        self._over.set()
        if self._writer.is_same(_read(self._path)):
            with suppress(OSError):
                self._path.unlink(missing_ok=True)

    def _await_end(self, other: Writer) -> None:
        limit, still = time.monotonic() + _PATIENCE_S, time.monotonic()
        while time.monotonic() - still < _LEASE_S:
            time.sleep(_POLL_S)
            found = _read(self._path)
            if found is None or found.is_gone:
                return
            if found != other:
                other, still = found, time.monotonic()
            if time.monotonic() > limit:
                raise PsclustError(
                    f"{self._directory}: {_describe(other)}, and did not end for {_PATIENCE_S:.0f} "
                    "s. End it, or choose another --model-dir"
                )

    def _keep(self) -> None:
        while not self._over.wait(_RENEW_S):
            # Taken over while this process stood still: `check` says so.
            if self._writer.is_same(_read(self._path)):
                self._renew()

    def _renew(self) -> None:
        self._writer = replace(self._writer, number=self._writer.number + 1)
        try:
            write_atomically(self._path, json.dumps(asdict(self._writer)))
        except OSError as error:
            LOG.debug("%s: %s", self._path, error.strerror)


@contextmanager
def writing_to(directory: Path, run: str | None, task: str) -> Iterator[FolderLease]:
    """Hold the lease for a training, `run` or one without psclust's launcher. Raises
    PsclustError."""
    lease = FolderLease(
        directory, Writer.here(run or f"{socket.gethostname()}-{os.getpid()}", task)
    )
    lease.take()
    try:
        yield lease
    finally:
        lease.release()


def _describe(other: Writer) -> str:
    return f"{other.task} of run {other.run} writes into this folder, on {other.host}"


def _read(path: Path) -> Writer | None:
    try:
        return build(Writer, parse_json(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None


def _machine() -> str:
    """Differs between machines, between two starts of one, and between containers that do not see
    each other's processes."""
    try:
        return (
            Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
            + " "
            + os.readlink("/proc/self/ns/pid")
        )
    except OSError:
        return f"{socket.gethostname()} {time.time_ns()}"


def _started(pid: int) -> int | None:
    """When a process of this machine started, in ticks; None if it is not there."""
    try:
        fields = (
            Path(f"/proc/{pid}/stat")
            .read_text(encoding="utf-8", errors="replace")
            .rpartition(")")[2]
            .split()
        )
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])
