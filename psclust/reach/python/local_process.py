"""A process on this machine with the interface of one on a host (`HostProcess`)."""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress

from psclust.errors import StartError

_CHUNK = 1 << 16


class LocalProcess:
    """Leaving it as a context manager kills it. Raises StartError when it cannot be started or does
    not answer in time."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._name = argv[0]
        self._buffer = bytearray()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        try:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, bufsize=0
            )
        except OSError as error:
            self._stderr.close()
            raise StartError(
                f"{self._name}: {error.strerror}. Name a Python that is there under `python:`."
            ) from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout

    def __enter__(self) -> LocalProcess:
        return self

    def __exit__(self, *details: object) -> None:
        self._process.kill()
        self._process.wait()
        self.close_stdin()
        self._stdout.close()
        self._stderr.close()

    @property
    def stderr(self) -> bytes:
        self._stderr.seek(0)
        return self._stderr.read()

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        with suppress(BrokenPipeError):  # it has ended; its output says why
            while view:
                view = view[self._stdin.write(view) or 0 :]

    def close_stdin(self) -> None:
        with suppress(OSError):
            self._stdin.close()

    def read_line(self, deadline: float | None) -> bytes:
        while b"\n" not in self._buffer:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._stdout], [], [], left)[0]:
                raise StartError(f"{self._name} did not answer in time.")
            data = os.read(self._stdout.fileno(), _CHUNK)
            if not data:
                break
            self._buffer += data
        end = self._buffer.find(b"\n") + 1 or len(self._buffer)
        line = bytes(self._buffer[:end])
        del self._buffer[:end]
        return line

    def wait(self, deadline: float | None) -> int:
        try:
            return self._process.wait(
                None if deadline is None else max(0.0, deadline - time.monotonic())
            )
        except subprocess.TimeoutExpired:
            raise StartError(f"{self._name} did not end in time.") from None
