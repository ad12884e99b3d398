"""What other threads want of the one thread that owns something: news for it to take in, and work to be done on it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

_Item = TypeVar("_Item")
_T = TypeVar("_T")


@dataclass
class _Call:
    """Work another thread wants done on the owner's: answered when `ready` is set."""

    work: Callable[[], object]
    ready: threading.Event = field(default_factory=threading.Event)
    result: object = None
    error: BaseException | None = None


class Mailbox(Generic[_Item]):
    """Any thread puts something in; its owner takes it out with `take`, again and again."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[_Item | _Call | None] = queue.SimpleQueue()

    def post(self, item: _Item) -> None:
        self._queue.put(item)

    def wake(self) -> None:
        """A signal handler may call this: SimpleQueue is safe there."""
        self._queue.put(None)

    def soon(self, work: Callable[[], object]) -> None:
        """Have `work` done on the owner's thread."""
        self._queue.put(_Call(work))

    def call(self, work: Callable[[], _T]) -> _T:
        """As `soon`; waits for the result, or raises the error."""
        call = _Call(work)
        self._queue.put(call)
        call.ready.wait()
        if call.error is not None:
            raise call.error
        return cast(_T, call.result)

    def take(self, timeout: float, woken: Callable[[], object]) -> _Item | None:
        """On the owner's thread: the next item. None after `timeout` seconds, when work has been done, and when `wake` was called, in which
        case `woken` is."""
        try:
            found = self._queue.get(timeout=timeout)
        except queue.Empty:
            return None
        if isinstance(found, _Call):
            _answer(found)
            return None
        if found is None:
            woken()
        return found


def _answer(call: _Call) -> None:
    try:
        call.result = call.work()
    except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to the thread that asked
        call.error = error
    call.ready.set()
