"""The updates that an agent streams to the supervisor: output, progress and events, from where an
earlier stream broke off."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from psclust.agent import agent_pb2 as pb
from psclust.agent.agent import Agent
from psclust.agent.records import task_id, task_of
from psclust.rundir.log_times import ENTRY, read_entries, times_path
from psclust.spec.cluster import Task

_LOOK_S = 1.0
_POLL_S = 0.1  # between checks for new output
_CHUNK = 1 << 18
_DRAIN_S = 1.0  # for a dead task's last output


def stream_updates(
    agent: Agent, request: pb.WatchRequest, is_active: Callable[[], bool]
) -> Iterator[pb.Update]:
    """Until the agent has stopped, or the client is gone. A task's output comes before the event of
    its end."""
    after, output, progress = (
        request.after,
        _OutputStream(agent, dict(request.offsets)),
        _ProgressStream(agent),
    )
    event_files = EventFiles(dict(request.offsets))
    announced = leaving = False
    while is_active():
        over = agent.stopped.is_set()  # read before the last updates are collected
        events = agent.event_log.after(after, 0 if over else _POLL_S)
        ended = [event for event in events if event.WhichOneof("event") == "exited"]
        if agent.stopping is not None and not announced:
            # First, or the supervisor would take the tasks' ends for failures of their own.
            announced = True
            yield pb.Update(stopping=agent.stopping)
        if agent.leaving is not None and not leaving:
            leaving = True
            yield pb.Update(leaving=agent.leaving)
        for event in ended:
            agent.drain(task_of(event.task), _DRAIN_S)
        yield from output.updates()
        yield from progress.updates()
        yield from event_files.updates(agent.summary_folders(), at_once=over or bool(ended))
        for event in events:
            yield pb.Update(event=event)
            after = event.number
        if over:
            return


class _OutputStream:
    """`offsets`: by file name, bytes sent of each log and the number of its times."""

    def __init__(self, agent: Agent, offsets: dict[str, int]) -> None:
        self._agent = agent
        self._offsets = offsets
        self._lost: dict[tuple[Task, int], int] = {}
        # Looked for ten times a second.
        self._log, self._times = cache(agent.folder.log), cache(times_path)

    def updates(self) -> Iterator[pb.Update]:
        attempts = self._agent.attempts()
        latest = dict(attempts)  # the last one of each task wins
        for task, attempt in attempts:
            found = self._agent.output(task)
            log = self._log(task, attempt)
            yield from self._saved(task, attempt, log)
            yield from self._timed(task, attempt, self._times(log))
            if attempt == latest[task] and found.lost != self._lost.get((task, attempt), 0):
                self._lost[task, attempt] = found.lost
                offset = self._offsets.get(log.name, 0)
                unkept = pb.Output(
                    task=task_id(task),
                    attempt=attempt,
                    offset=offset,
                    lost=found.lost,
                    unkept=found.unkept,
                )
                yield pb.Update(output=unkept)

    def _saved(self, task: Task, attempt: int, path: Path) -> Iterator[pb.Update]:
        for offset, data in _appended(path, self._offsets.get(path.name, 0)):
            yield pb.Update(
                output=pb.Output(task=task_id(task), attempt=attempt, offset=offset, data=data)
            )
            self._offsets[path.name] = offset + len(data)

    def _timed(self, task: Task, attempt: int, path: Path) -> Iterator[pb.Update]:
        first = self._offsets.get(path.name, 0)
        if _size(path) < (first + 1) * ENTRY.size:
            return
        now = time.time()
        times = [pb.Time(end=end, age=now - at) for end, at in read_entries(path, first)]
        yield pb.Update(
            output=pb.Output(task=task_id(task), attempt=attempt, first_time=first, times=times)
        )
        self._offsets[path.name] = first + len(times)


class _ProgressStream:
    """Sends a progress file again when it changes, or when a new attempt has written the same
    content."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._sent: dict[Task, tuple[int, bytes]] = {}
        self._seen: dict[Task, tuple[int, ...]] = {}
        self._path = cache(agent.folder.progress)

    def updates(self) -> Iterator[pb.Update]:
        for task, attempt in dict(self._agent.attempts()).items():
            path = self._path(task)
            try:
                # It is written anew and put in its place.
                found = path.stat()
                seen = attempt, found.st_mtime_ns, found.st_ino
                if seen == self._seen.get(task):
                    continue
                known = attempt, path.read_bytes()
            except OSError:
                continue
            self._seen[task] = seen
            if known != self._sent.get(task):
                self._sent[task] = known
                yield pb.Update(progress=pb.Progress(task=task_id(task), content=known[1]))


def _appended(path: Path, offset: int) -> Iterator[tuple[int, bytes]]:
    """Pieces of a file from `offset` on, with their places; none if it is removed meanwhile."""
    if _size(path) <= offset:
        return
    with suppress(OSError), path.open("rb") as file:
        file.seek(offset)
        while data := file.read(_CHUNK):
            yield offset, data
            offset += len(data)


def _size(path: Path) -> int:
    """Of a file; 0 if there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


class EventFiles:
    """offsets: bytes read of each file, by its path below its folder."""

    def __init__(self, offsets: dict[str, int]) -> None:
        self._offsets = offsets
        self._looked = float("-inf")

    def updates(self, folders: Collection[str], *, at_once: bool) -> Iterator[pb.Update]:
        """Bytes appended since the last look; looks at most once a second, unless `at_once`."""
        if not folders or (time.monotonic() - self._looked < _LOOK_S and not at_once):
            return
        self._looked = time.monotonic()
        for folder in map(Path, folders):
            for path in sorted(filter(os.path.isfile, folder.rglob("*tfevents*"))):
                name = path.relative_to(folder).as_posix()
                for offset, data in _appended(path, self._offsets.get(name, 0)):
                    yield pb.Update(event_file=pb.EventFile(path=name, offset=offset, data=data))
                    self._offsets[name] = offset + len(data)
