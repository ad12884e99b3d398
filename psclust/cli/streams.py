"""Standard output and error that never raise: output that cannot be written is dropped, characters
outside the encoding are escaped, and the first failure is kept."""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from contextlib import suppress
from typing import Any

_STUCK_S = 0.5


class _Stream(io.RawIOBase):
    """A file descriptor to which writing always succeeds. `failure`: the first error; `reported`:
    whether the user knows it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.failure: OSError | None = None
        self.reported = False
        self.hurried = False
        self._stuck = False
        # Bytes that can be written at once without blocking.
        self._step = 256 if os.isatty(descriptor) else select.PIPE_BUF

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        left = memoryview(data).cast("B")
        size = len(left)
        try:
            while left and self._has_room():
                with suppress(
                    BlockingIOError
                ):  # another process has made the terminal or pipe non-blocking
                    left = left[os.write(self._descriptor, left[: self._step]) :]
        except OSError as error:
            self.failure = self.failure or error
        return size

    def _has_room(self) -> bool:
        """Wait until it can be written to; after `hurry`, only for a moment."""
        while not select.select([], [self._descriptor], [], 0 if self._stuck else _STUCK_S)[1]:
            self._stuck = self.hurried
            if self._stuck:
                return False
        self._stuck = False
        return True


def guard() -> None:
    """Install the streams; call this first. A closed standard stream becomes /dev/null, so that no
    other file gets its number."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            assert null == descriptor
            os.set_inheritable(null, True)
    sys.stdout, sys.stderr = _text(1, sys.stdout), _text(2, sys.stderr)


def are_one() -> bool:
    """Whether standard output and standard error are read together: one terminal, one pipe, one
    file."""
    return os.path.samestat(os.fstat(1), os.fstat(2))


def _text(descriptor: int, like: Any) -> io.TextIOWrapper:
    encoding = getattr(like, "encoding", None) or "utf-8"
    return io.TextIOWrapper(
        io.BufferedWriter(_Stream(descriptor)), encoding, "backslashreplace", line_buffering=True
    )


def hurry() -> None:
    """Stop waiting for a reader that has stopped reading. Safe in a signal handler."""
    for stream in (sys.stdout, sys.stderr):
        raw = getattr(getattr(stream, "buffer", None), "raw", None)
        if isinstance(raw, _Stream):
            raw.hurried = True


def failure() -> OSError | None:
    """The error of standard output, if any."""
    stream = _stdout()
    return stream.failure if stream else None


def unreported_failure() -> OSError | None:
    """As `failure`, but only once."""
    stream = _stdout()
    if stream is None or stream.reported or stream.failure is None:
        return None
    stream.reported = True
    return stream.failure


def _stdout() -> _Stream | None:
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw if isinstance(raw, _Stream) else None


def reader_has_left() -> bool:
    """Whether standard output is a pipe without a reader."""
    lost = failure()
    if lost is not None:
        return lost.errno == errno.EPIPE
    with suppress(OSError, ValueError, AttributeError):
        watch = select.poll()
        watch.register(sys.stdout.fileno(), 0)
        return any(event & select.POLLERR for _, event in watch.poll(0))
    return False
