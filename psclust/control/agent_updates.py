"""What an agent reports about its tasks, applied once each: events to the supervisor, output and
progress to the run folder."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from psclust.agent import agent_pb2 as pb
from psclust.agent.records import task_of
from psclust.errors import UsageError
from psclust.rundir.atomic_file import write_atomically
from psclust.rundir.folder import RunFolder
from psclust.rundir.log_times import ENTRY, times_path
from psclust.spec.cluster import Task
from psclust.supervise import events
from psclust.supervise.events import Event
from psclust.transport.api import Output
from psclust.transport.log_pump import append

LOG = logging.getLogger(__name__)


class AgentUpdates:
    """The state of one agent's tasks as last reported. One thread applies updates; another one may
    read. post: takes the events, on the first."""

    def __init__(self, host: str, folder: RunFolder, post: Callable[[Event], object]) -> None:
        self._host = host
        self._folder = folder
        self._post = post
        self._after = 0
        self._offsets: dict[str, int] = {}
        self._attempts: dict[Task, int] = {}
        self._outputs: dict[tuple[Task, int], Output] = {}
        self._lost: dict[tuple[Task, int], int] = {}  # bytes that did not fit on the host
        # Files that differ from the host's: times of a log mean other bytes, pieces of event files
        # are of no use.
        self._untimed: set[Path] = set()
        self._serving: set[Task] = set()
        self._progress: dict[Task, str] = {}

    def begin(self, task: Task, attempt: int) -> None:
        """Forget what earlier attempts reported."""
        self._serving.discard(task)
        self._attempts[task] = attempt
        self._progress.pop(task, None)

    def output(self, task: Task) -> Output:
        """Of the latest attempt."""
        return self._outputs.get((task, self._attempts.get(task, 0)), Output())

    def serving(self, task: Task) -> bool:
        return task in self._serving

    def progress(self, task: Task) -> str | None:
        """Content of the task's progress file."""
        return self._progress.get(task)

    def rest(self) -> pb.WatchRequest:
        """The request for all updates not received yet."""
        return pb.WatchRequest(after=self._after, offsets=self._offsets)

    def apply(self, update: pb.Update) -> None:
        try:
            self._apply(update)
        except UsageError as error:  # it names a file outside the run's folder
            LOG.warning("%s: sent an update of no task: %s", self._host, error)

    def _apply(self, update: pb.Update) -> None:
        match update.WhichOneof("update"):
            case "event" if update.event.number > self._after:
                self._after = update.event.number
                self._apply_event(update.event)
            case "output":
                self._apply_output(update.output)
            case "progress":
                self._apply_progress(update.progress)
            case "event_file":
                self._apply_event_file(update.event_file)
            case "leaving":
                self._post(events.HostLeaves(self._host, update.leaving, goes=True))

    def _apply_event(self, event: pb.Event) -> None:
        task = task_of(event.task)
        match event.WhichOneof("event"):
            case "started":
                self._post(events.Started(task, event.started))
            case "not_started":
                self._post(events.NotStarted(task, event.not_started))
            case "exited":
                evidence = event.out_of_memory if event.HasField("out_of_memory") else None
                self._post(events.Exited(task, event.exited, out_of_memory=evidence))
            case "serving":
                self._serving.add(task)

    def _apply_progress(self, progress: pb.Progress) -> None:
        """The file is for the user; the supervisor reads `progress`, which needs no disk space."""
        task, text = task_of(progress.task), progress.content.decode("utf-8", "replace")
        self._progress[task] = text
        path = self._folder.progress(task)
        try:
            write_atomically(path, text)
        except OSError as error:
            self._note(
                f"{path.parent}: {error.strerror}; the run goes on, "
                "but the progress of its tasks is not shown"
            )

    def _apply_output(self, output: pb.Output) -> None:
        task = task_of(output.task)
        path = self._folder.log(task, output.attempt)
        known = self._offsets.get(path.name, 0)
        data = output.data[known - output.offset :] if output.offset < known else output.data
        if output.times:
            self._apply_times(path, output)
            return
        self._offsets[path.name] = known + len(data)
        key = task, output.attempt
        newly_lost = output.lost - self._lost.get(key, 0)
        if newly_lost > 0:
            # The host's disk is full; the agent sends the last of what did not fit there.
            self._lost[key] = output.lost
            if (missing := newly_lost - len(output.unkept)) > 0:
                data += f"\n[psclust: {missing} bytes found no room on {self._host}]\n".encode()
            data += output.unkept[-newly_lost:]
            self._untimed.add(path)
            self._note(
                f"{self._host}: no space left for the output of tasks; "
                "the run goes on, and the output is kept here only"
            )
        kept = append(path, data)
        self._outputs[key] = self._outputs.get(key, Output()).plus(data, kept)
        if kept < len(data):
            self._untimed.add(path)

    def _apply_times(self, path: Path, output: pb.Output) -> None:
        """Of output that was applied before."""
        times = times_path(path)
        known = self._offsets.get(times.name, 0)
        self._offsets[times.name] = max(known, output.first_time + len(output.times))
        now = time.time()
        data = b"".join(
            ENTRY.pack(each.end, now - each.age)
            for each in output.times[max(0, known - output.first_time) :]
        )
        if path not in self._untimed and append(times, data) < len(data):
            self._untimed.add(path)

    def _apply_event_file(self, piece: pb.EventFile) -> None:
        """A file of which a piece is missing, as the disk was full, gets no more of them: what
        follows could not be read."""
        path = self._folder.summaries / piece.path
        if ".." in path.parts or not path.is_relative_to(self._folder.summaries):
            LOG.warning("%s: sent an event file outside its folder: %s", self._host, piece.path)
            return
        known = self._offsets.get(piece.path, 0)
        data = piece.data[max(0, known - piece.offset) :]
        self._offsets[piece.path] = known + len(data)
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
        if path not in self._untimed and append(path, data) < len(data):
            self._untimed.add(path)
            self._note(
                f"{path.parent}: no space left for event files; "
                "the run goes on, TensorBoard shows what has come so far"
            )

    def _note(self, text: str) -> None:
        self._post(events.Note(text))
