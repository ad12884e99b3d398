"""The runs of a step, one after another or, where all tasks run their parts in order, the next begun while one is under way."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

from psclust.runtime.kernel_library import await_parts

_LOOK_S = 0.1


class StepRuns:
    """run: one run, of what it is fed."""

    def __init__(self, run: Callable[..., Any]) -> None:
        self._run = run

    @property
    def under_way(self) -> int:
        """How many have been begun whose result has not been taken."""
        return 0

    def take(self, *feeds: Any) -> Any:
        """The result of the next run, with these `feeds` unless it is under way. Raises what it raises."""
        return self._run(*feeds)

    def drop(self) -> None:
        """Waits for what is under way, which is known to fail."""

    def close(self) -> None:
        """Begins no more. What is under way ends with its session, if not before: it may need what does not come any more."""


class _UnderWay:
    """A run that has been begun, and then its result or its error."""

    def __init__(self, feeds: Sequence[Any]) -> None:
        self.feeds = feeds
        self.result: Any = None
        self.error: BaseException | None = None
        # Held until it has ended.
        self._going = threading.Lock()
        self._going.acquire()

    def make(self, run: Callable[..., Any]) -> None:
        try:
            self.result = run(*self.feeds)
        except BaseException as error:  # noqa: BLE001 - raised by `RunsAhead.take`
            self.error = error
        self._going.release()

    @property
    def ended(self) -> bool:
        return not self._going.locked()

    def wait(self) -> None:
        with self._going:
            pass


class RunsAhead(StepRuns):
    """number: of the graph, see `RunOrder`. following: what to feed the run after the one that is under way; None: it is not to be begun
    yet."""

    def __init__(self, run: Callable[..., Any], number: int, following: Callable[[], Sequence[Any] | None]) -> None:
        super().__init__(run)
        self._number = number
        self._following = following
        # None: a thread is to end.
        self._begun: SimpleQueue[_UnderWay | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._make_runs, name=f"step {index}") for index in range(2)]
        self._under_way: deque[_UnderWay] = deque()
        self._parts = 0  # of one run; 0: not known yet
        self._expected = 0  # of all runs that have been begun

    def take(self, *feeds: Any) -> Any:
        if not self._under_way:
            self._expected = self._count_parts()
            self._begin(feeds)
        if not self._parts:
            self._learn_parts()
        elif (following := self._following()) is not None and self._are_begun():
            self._begin(following)
        first = self._under_way[0]
        first.wait()
        self._under_way.popleft()
        if first.error is not None:
            raise first.error
        return first.result

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    def _begin(self, feeds: Sequence[Any]) -> None:
        if self._threads[0].ident is None:
            for thread in self._threads:
                thread.start()
        self._under_way.append(_UnderWay(feeds))
        self._begun.put(self._under_way[-1])
        self._expected += self._parts

    def _make_runs(self) -> None:
        while (run := self._begun.get()) is not None:
            run.make(self._run)

    def drop(self) -> None:
        for each in tuple(self._under_way):
            each.wait()
            if each.error is None:
                raise AssertionError("a run has been made that was not to be")
        self._under_way.clear()

    def _learn_parts(self) -> None:
        """From the first run that the tasks make in order, which is alone as those before."""
        self._under_way[-1].wait()
        self._parts = self._count_parts() - self._expected

    def _are_begun(self) -> bool:
        """Waits until all parts of what is under way have been begun: two runs have to begin in one order in all tasks. False if it has
        failed before."""
        while await_parts(self._number, self._expected, _LOOK_S) < self._expected:
            if self._under_way[-1].ended:
                return False
        return True

    def _count_parts(self) -> int:
        return await_parts(self._number, 0, 0.0)

    def close(self) -> None:
        for _ in self._threads:
            self._begun.put(None)
