"""A base for commands on hosts, whatever carries them: a thread takes in their output."""

from __future__ import annotations

import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator

from psclust.errors import HostError

_TAIL = 1 << 20  # of stderr that is kept


class HostCommand(ABC):
    """A running command (`HostProcess`), without the way to write to it. purpose: a clause that
    says what the command does. PLACE: the host in messages. LOST: how the connection to it ended.
    A subclass calls `_take_in` when the command runs."""

    PLACE = "host"
    LOST = "the connection was lost"

    def __init__(self, host: str, purpose: str) -> None:
        self._host, self._purpose = host, purpose
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._stderr = bytearray()
        self._ended = threading.Event()

    @property
    def stderr(self) -> bytes:
        return bytes(self._stderr)

    def read_line(self, deadline: float | None) -> bytes:
        """See `HostProcess.read_line`."""
        try:
            line = self._lines.get(timeout=_left(deadline))
        except queue.Empty:
            raise self._late() from None
        if not line:
            self._lines.put(line)  # the end stays the end
        return line

    def wait(self, deadline: float | None) -> int:
        """See `HostProcess.wait`."""
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
