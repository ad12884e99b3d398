"""What an agent streams to the supervisor, and what it takes of the host while there is nothing
new."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from psclust.agent import agent_pb2 as pb
from psclust.agent.agent import Agent
from psclust.agent.update_stream import stream_updates
from psclust.rundir.atomic_file import write_atomically
from psclust.rundir.folder import ClusterFolder
from psclust.rundir.log_times import TimesWriter
from psclust.spec.cluster import Task
from psclust.testing.wait import PATIENCE_S
from psclust.transport.api import Output

TASK = Task("worker", 0)
IDLE_LOOKS = 3


class OneTask(Agent):
    """An agent whose task has been started, and whose files this test writes."""

    def attempts(self) -> list[tuple[Task, int]]:
        return [(TASK, 1)]

    def output(self, task: Task) -> Output:
        return Output()


class Watch:
    """A supervisor's stream of updates, which it reads until it has what it waits for, or for some
    looks of the agent."""

    def __init__(self, agent: Agent) -> None:
        self.output, self.known_to, self.progress = b"", 0, b""
        self._looks = 0
        self._updates = stream_updates(agent, pb.WatchRequest(), self._is_active)

    def until_known_to(self, end: int) -> None:
        self._until(lambda: self.known_to == end)

    def until_progress(self, content: bytes) -> None:
        self._until(lambda: self.progress == content)

    def look(self, times: int) -> int:
        """How many updates come. It is the end of the stream."""
        self._looks = times
        return sum(1 for _ in self._updates)

    def _until(self, there: Callable[[], bool]) -> None:
        self._looks = int(10 * PATIENCE_S)
        while not there():
            self._take(next(self._updates))

    def _is_active(self) -> bool:
        self._looks -= 1
        return self._looks >= 0

    def _take(self, update: pb.Update) -> None:
        self.output += update.output.data
        self.known_to = max([self.known_to, *(time.end for time in update.output.times)])
        self.progress = update.progress.content or self.progress


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that pathlib opens from now on."""
    found: list[str] = []
    actual = io.open

    def noted(file: Any, *arguments: Any, **named: Any) -> Any:
        found.append(str(file))
        return actual(file, *arguments, **named)

    monkeypatch.setattr(io, "open", noted)
    return found


def test_output_its_times_and_progress_come_and_no_file_is_read_again_that_has_not_changed(
    tmp_path: Path, opened: list[str]
) -> None:
    agent = OneTask(ClusterFolder(tmp_path / "cluster").new_run(), lease_s=600.0, grace_s=0.1)
    log, progress = agent.folder.log(TASK, 1), agent.folder.progress(TASK)
    times, watch, said = TimesWriter(log), Watch(agent), b""
    for line in (b"hello\n", b"again\n"):
        with log.open("ab") as file:
            file.write(line)
        said += line
        times.note(len(said), time.time())
        times.flush()
        watch.until_known_to(len(said))
        assert watch.output == said
        write_atomically(progress, line.decode())
        watch.until_progress(line)
    times.close()
    assert {str(log), str(log.with_suffix(".times")), str(progress)} <= set(opened)
    opened.clear()
    assert watch.look(IDLE_LOOKS) == 0
    assert opened == []
