"""The runs of a step, one after another or, where all tasks run their parts in order, the next
begun while one is under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
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
        """The result of the next run, with these `feeds` unless it is under way. Raises what it
        raises."""
        return self._run(*feeds)

    def drop(self) -> None:
        """Waits for what is under way, which is known to fail."""

    def close(self) -> None:
        """Begins no more. What is under way ends with its session, if not before: it may need what
        does not come any more."""


class RunsAhead(StepRuns):
    """number: of the graph, see `RunOrder`. following: what to feed the run after the one that is
    under way; None: it is not to be begun yet."""

    def __init__(
        self, run: Callable[..., Any], number: int, following: Callable[[], Sequence[Any] | None]
    ) -> None:
        super().__init__(run)
        self._number = number
        self._following = following
        self._threads = ThreadPoolExecutor(2, "step")
        self._results: deque[Future[Any]] = deque()
        self._parts = 0  # of one run; 0: not known yet
        self._expected = 0  # of all runs that have been begun

    def take(self, *feeds: Any) -> Any:
        if not self._results:
            self._expected = self._count_parts()
            self._begin(feeds)
        if not self._parts:
            self._learn_parts()
        elif (following := self._following()) is not None and self._are_begun():
            self._begin(following)
        try:
            return self._results[0].result()
        finally:
            self._results.popleft()

    @property
    def under_way(self) -> int:
        return len(self._results)

    def _begin(self, feeds: Sequence[Any]) -> None:
        self._results.append(self._threads.submit(self._run, *feeds))
        self._expected += self._parts

    def drop(self) -> None:
        wait(self._results)
        if any(each.exception() is None for each in self._results):
            raise AssertionError("a run has been made that was not to be")
        self._results.clear()

    def _learn_parts(self) -> None:
        """From the first run that the tasks make in order, which is alone as those before."""
        wait(self._results)
        self._parts = self._count_parts() - self._expected

    def _are_begun(self) -> bool:
        """Waits until all parts of what is under way have been begun: two runs have to begin in one
        order in all tasks. False if it has failed before."""
        while await_parts(self._number, self._expected, _LOOK_S) < self._expected:
            if self._results[-1].done():
                return False
        return True

    def _count_parts(self) -> int:
        return await_parts(self._number, 0, 0.0)

    def close(self) -> None:
        self._threads.shutdown(wait=False)
