"""A queue into the thread that owns some state: items for it to handle, and calls to run on it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

_Item = TypeVar("_Item")
_T = TypeVar("_T")


@dataclass(frozen=True)
class _Call:
    work: Callable[[], object]
    answer: Future[Any] = field(default_factory=Future)

    def run(self) -> None:
        try:
            self.answer.set_result(self.work())
        except Exception as error:  # noqa: BLE001 - re-raised on the calling thread
            self.answer.set_exception(error)


class Mailbox(Generic[_Item]):
    """Any thread puts items and calls in; the owner takes them out with `take`, again and again."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[_Item | _Call | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._closed: Exception | None = None

    def post(self, item: _Item) -> None:
        self._queue.put(item)

    def wake(self) -> None:
        """Make `take` call `woken`. Safe in a signal handler, as SimpleQueue is. A handler must
        call it, or post, if the owner is the main thread: else `take` may wait for ever, as
        `SimpleQueue.get` does if a handler returns after the timeout."""
        self._queue.put(None)

    def soon(self, work: Callable[[], object]) -> None:
        """Run `work` on the owner's thread, without waiting for it."""
        self._queue.put(_Call(work))

    def call(self, work: Callable[[], _T]) -> _T:
        """Run `work` on the owner's thread; returns its result or raises its error, or that of
        `close`."""
        call = _Call(work)
        with self._closing:
            if self._closed is not None:
                raise self._closed
            self._queue.put(call)
        result: _T = call.answer.result()
        return result

    def close(self, error: Exception) -> None:
        """Fail all calls that wait, and every later one, with `error`: the owner's loop is over, so
        nothing would answer them."""
        with self._closing:
            self._closed = error
        while not self._queue.empty():
            found = self._queue.get()
            if isinstance(found, _Call):
                found.answer.set_exception(error)

    def take(self, timeout_s: float, woken: Callable[[], object]) -> _Item | None:
        """The next item, on the owner's thread. None after `timeout_s`, after a call has run, and
        after `wake`, which calls `woken`."""
        try:
            found = self._queue.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if isinstance(found, _Call):
            found.run()
            return None
        if found is None:
            woken()
        return found
