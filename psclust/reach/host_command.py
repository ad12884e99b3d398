"""A command on a host, whatever carries it there: a thread takes in its output."""

from __future__ import annotations

import queue
import threading
import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager

from psclust.errors import HostError

_TAIL = 1 << 20  # of stderr that is kept


class HostCommand(AbstractContextManager["HostCommand"]):
    """A running command; leaving the context ends its input. purpose: a clause that says what it
    does. Deadlines are times of `time.monotonic`. Raises HostError when the connection is lost or a
    deadline passes.

    PLACE: the host in messages. LOST: how the connection to it ended. A subclass calls `_take_in`
    when the command runs."""

    PLACE = "host"
    LOST = "the connection was lost"

    def __init__(self, host: str, purpose: str) -> None:
        self._host, self._purpose = host, purpose
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._stderr = bytearray()
        self._ended = threading.Event()

    @property
    def stderr(self) -> bytes:
        """All of standard error so far, or its end."""
        return bytes(self._stderr)

    @abstractmethod
    def write(self, data: bytes) -> None: ...

    @abstractmethod
    def close_stdin(self) -> None: ...

    def read_line(self, deadline: float | None) -> bytes:
        """With its line end; empty at the end of the output."""
        try:
            line = self._lines.get(timeout=_left(deadline))
        except queue.Empty:
            raise self._late() from None
        if not line:
            self._lines.put(line)  # the end stays the end
        return line

    def wait(self, deadline: float | None) -> int:
        """The exit code."""
        if not self._ended.wait(_left(deadline)):
            raise self._late()
        return self._exit_code()

    @abstractmethod
    def _output(self) -> Iterator[bytes]:
        """Its standard output in pieces, until the command has ended."""

    @abstractmethod
    def _exit_code(self) -> int:
        """Of the command, which has ended. Raises HostError."""

    def _take_in(self) -> None:
        """Begin to read the output."""
        threading.Thread(target=self._read, name=f"output-{self._host}", daemon=True).start()

    def _take_errors(self, pieces: Iterable[bytes]) -> threading.Thread:
        """Begin to read standard error; returns the thread that does."""

        def read() -> None:
            for data in pieces:
                self._stderr += data
                del self._stderr[:-_TAIL]

        thread = threading.Thread(target=read, name=f"errors-{self._host}", daemon=True)
        thread.start()
        return thread

    def _read(self) -> None:
        rest = bytearray()
        for data in self._output():
            rest += data
            if b"\n" in data:
                *lines, rest = rest.split(b"\n")
                for line in lines:
                    self._lines.put(bytes(line) + b"\n")
        if rest:
            self._lines.put(bytes(rest))
        self._ended.set()
        self._lines.put(b"")

    def _lost(self) -> HostError:
        return HostError(
            f"{self._host}: {self.LOST} while {self._purpose}. Is the {self.PLACE} still there?"
        )

    def _late(self) -> HostError:
        return HostError(
            f"{self._host}: no answer in time while {self._purpose}. "
            f"Is the {self.PLACE} still there, or is it very busy?"
        )


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())
