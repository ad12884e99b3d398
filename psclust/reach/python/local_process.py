"""A process on this machine with the interface of one on a host."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress

from psclust.errors import StartError
from psclust.reach.host_command import HostCommand

_CHUNK = 1 << 16


class LocalProcess(HostCommand):
    """Leaving it as a context manager kills it. Raises StartError when it cannot be started or does
    not answer in time."""

    PLACE = "process"

    def __init__(self, argv: Sequence[str], purpose: str) -> None:
        super().__init__("this machine", purpose)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        try:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, bufsize=0
            )
        except OSError as error:
            self._errors.close()
            raise StartError(
                f"{argv[0]}: {error.strerror}. Name a Python that is there under `python:`."
            ) from None
        self._take_in()

    def __exit__(self, *details: object) -> None:
        self._process.kill()
        self._process.wait()
        self.close_stdin()
        self._errors.close()

    @property
    def stderr(self) -> bytes:
        self._errors.seek(0)
        return self._errors.read()

    def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        view = memoryview(data)
        with suppress(BrokenPipeError):  # it has ended; its output says why
            while view:
                view = view[self._process.stdin.write(view) or 0 :]

    def close_stdin(self) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()

    def _output(self) -> Iterator[bytes]:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            while data := os.read(stream.fileno(), _CHUNK):
                yield data
        self._process.wait()

    def _exit_code(self) -> int:
        return self._process.wait()
