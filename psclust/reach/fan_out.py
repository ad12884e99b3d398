"""The same work for many hosts at once, on daemon threads: a Ctrl-C in the middle ends the caller
at once."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from psclust.errors import PsclustError, StartError

PARALLEL = 32  # hosts at once, over connections that are there
_K = TypeVar("_K")
_T = TypeVar("_T")


def fan_out(
    items: Sequence[_K], work: Callable[[_K], _T], *, parallel: int, deadline: float | None = None
) -> Iterator[tuple[_K, _T | PsclustError]]:
    """Yield each item with the result of `work`, or the PsclustError it raised, as they finish.
    `parallel`: how many at once; `deadline`: a time of `time.monotonic` after which unfinished
    items count as failed. Any other exception of `work` is raised here."""
    waiting: queue.SimpleQueue[_K] = queue.SimpleQueue()
    for item in items:
        waiting.put(item)
    done: queue.SimpleQueue[tuple[_K, _T | BaseException]] = queue.SimpleQueue()
    left = list(items)
    over = threading.Event()
    for number in range(min(parallel, len(items))):
        # Daemons: the interpreter must not wait for one that hangs in a name lookup.
        threading.Thread(
            target=_work, args=(waiting, done, over, work), name=f"fan-out-{number}", daemon=True
        ).start()
    try:
        while left:
            try:
                item, outcome = done.get(
                    timeout=None if deadline is None else max(0.0, deadline - time.monotonic())
                )
            except queue.Empty:
                yield from ((item, StartError("no answer in time.")) for item in left)
                return
            left.remove(item)
            if isinstance(outcome, BaseException) and not isinstance(outcome, PsclustError):
                raise outcome
            yield item, outcome
    finally:
        over.set()


def on_each(hosts: Sequence[str], work: Callable[[str], _T]) -> dict[str, _T]:
    """Host -> what `work` returned for it, all at once. Raises StartError, when all are done, with
    a line for each failure."""
    return all_or_error(attempt_on_each(hosts, work))


def attempt_on_each(
    hosts: Sequence[str], work: Callable[[str], _T]
) -> dict[str, _T | PsclustError]:
    """As `on_each`, with failures in their places."""
    outcomes = dict(fan_out(hosts, work, parallel=PARALLEL))
    return {host: outcomes[host] for host in hosts}


def all_or_error(outcomes: Mapping[str, _T | PsclustError]) -> dict[str, _T]:
    """The results. Raises StartError with a line for each failure."""
    failures = dict.fromkeys(
        str(outcome) for outcome in outcomes.values() if isinstance(outcome, PsclustError)
    )
    if failures:
        raise StartError("\n".join(failures))
    return {
        name: outcome for name, outcome in outcomes.items() if not isinstance(outcome, PsclustError)
    }


def _work(
    waiting: queue.SimpleQueue[_K],
    done: queue.SimpleQueue[tuple[_K, _T | BaseException]],
    over: threading.Event,
    work: Callable[[_K], _T],
) -> None:
    while not over.is_set():
        try:
            item = waiting.get_nowait()
        except queue.Empty:
            return
        try:
            done.put((item, work(item)))
        except BaseException as error:  # noqa: BLE001 - the caller's thread raises it
            done.put((item, error))
