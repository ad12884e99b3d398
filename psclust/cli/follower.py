"""Follows a run: the lines that its tasks print, and their progress."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from psclust.cli import streams
from psclust.cli.live_view import LiveView
from psclust.cli.output import duration
from psclust.rundir.folder import RunFolder
from psclust.rundir.log_reader import LogReader
from psclust.rundir.log_tail import tail_offsets
from psclust.rundir.status import DROPPED, RunStatus, TaskStatus
from psclust.rundir.task_progress import Progress
from psclust.spec.cluster import Task

_SCREEN = 20  # lines that are still on the user's screen
_OVER = ("done", "failed", "stopped", "backoff", DROPPED)  # phases of a task without a process


class Follower:
    """Shows a run on a LiveView. `only`: the tasks to show, all if empty; `last`: how many of each
    task's old lines to show; `shown`: notes that were shown before."""

    def __init__(
        self,
        folder: RunFolder,
        view: LiveView,
        only: Collection[Task] = (),
        *,
        last: int | None = None,
        shown: Collection[str] = (),
    ) -> None:
        self._last = last
        self._folder = folder
        self.view = view
        self._only = {str(task) for task in only}
        self._readers: dict[Path, tuple[str, int, LogReader]] = {}
        self._shown_notes = set(shown)
        self._attempts: dict[str, int] = {}
        self._shown = 0
        self._shown_of: dict[
            str, int
        ] = {}  # task -> the number of its last line among all that were shown
        self._lost: dict[
            tuple[str, int], int
        ] = {}  # (task, attempt) -> bytes shown of the output that found no room

    def show(self, status: RunStatus) -> bool:
        """Print new lines, of each task only as many as take no time, and redraw the bottom;
        returns whether there are more."""
        self.view.know(
            [task.task for task in status.tasks if not self._only or task.task in self._only]
        )
        self._show_events(status)
        self._find_logs(status)
        behind = False
        tasks = {task.task: task for task in status.tasks}
        over = {name: task.attempt - (task.phase not in _OVER) for name, task in tasks.items()}
        for task, attempt, reader in self._readers.values():
            lines = reader.read()
            behind = behind or reader.behind
            if lines is not None:
                self._show_lines(task, lines, reader.redrawn)
                continue
            self._show_unkept(tasks, task, attempt, reader)
            if attempt <= over.get(task, attempt):
                self._show_lines(task, reader.close())
        if self.view.redraws:
            self.view.footer(self._footer(status))
        return behind

    def finish(self, status: RunStatus, stop: Callable[[], bool] = streams.reader_has_left) -> None:
        """Print the rest of every log, until `stop` is true."""
        self._find_logs(status)
        tasks, stopped = {task.task: task for task in status.tasks}, False
        for task, attempt, reader in self._readers.values():
            while not (stopped := stopped or stop()) and (lines := reader.read()) is not None:
                self._show_lines(task, lines)
            self._show_unkept(tasks, task, attempt, reader)
            self._show_lines(task, reader.close())

    @property
    def has_shown(self) -> bool:
        """Whether a task has printed anything so far."""
        return bool(self._shown_of)

    def has_just_shown(self, task: str | None) -> bool:
        """Whether a task's last lines are still on the screen."""
        return task in self._shown_of and self._shown - self._shown_of[task] < _SCREEN

    def _show_lines(self, task: str, lines: Sequence[str], bar: str | None = None) -> None:
        self.view.lines(task, lines, bar)
        if lines:
            self._shown += sum(line.endswith("\n") for line in lines)
            self._shown_of[task] = self._shown

    def _find_logs(self, status: RunStatus) -> None:
        for task in status.tasks:
            if self._only and task.task not in self._only:
                continue
            known = Task.parse(task.task)
            is_first = task.task not in self._attempts
            logs = {
                attempt: self._folder.log(known, attempt)
                for attempt in range(self._attempts.get(task.task, 0) + 1, task.attempt + 1)
            }
            begin = (
                tail_offsets(list(logs.values()), self._last)
                if is_first and self._last is not None
                else {}
            )
            for attempt, path in logs.items():
                self._readers[path] = (
                    task.task,
                    attempt,
                    LogReader(path, offset=begin.get(path, 0)),
                )
            self._attempts[task.task] = task.attempt

    def _show_unkept(
        self, tasks: Mapping[str, TaskStatus], name: str, attempt: int, reader: LogReader
    ) -> None:
        """Show the output that found no room in the log, which has been read to its end."""
        task, shown = tasks.get(name), self._lost.get((name, attempt), 0)
        if task is None or task.attempt != attempt or task.lost_output <= shown:
            return
        self._lost[name, attempt] = task.lost_output
        unkept = task.unkept.encode("latin-1")[shown - task.lost_output :]
        if missing := task.lost_output - shown - len(unkept):
            self._show_lines(
                name,
                [
                    *reader.close(),
                    f"[psclust: {missing} bytes found no room on disk and are not shown]\n",
                ],
            )
        self._show_lines(name, reader.feed(unkept), reader.redrawn)

    def _show_events(self, status: RunStatus) -> None:
        for note in status.notes:
            self._once(note, note)
        for task in status.tasks:
            if task.attempt > 1:
                self._once(
                    f"{task.task} attempt {task.attempt}",
                    f"{task.task}: attempt {task.attempt} starts",
                )
            if task.phase == "backoff":
                self._once(
                    f"{task.task} backoff {task.restarts}",
                    f"{task.task} ended with {task.exit_code}; it is started again",
                )
            if task.lost_output:
                self._once(
                    f"{task.task} lost",
                    f"{task.task}: no space left under {self._folder.path}; "
                    "the run goes on, output that finds no room is only shown here",
                )
        programs = [task for task in status.tasks if task.role == "program"]
        if (
            status.phase == "live"
            and programs
            and all(task.joined and task.phase == "running" for task in programs)
        ):
            self._once(
                "joined",
                "every program has joined its TensorFlow server; "
                f"the run stays until it is ended (psclust down {status.name})",
            )
        if status.waiting and status.phase == "finishing":
            self._once("waiting", status.waiting)
        if status.silent:
            self._once(status.silent, status.silent)

    def _once(self, key: str, text: str) -> None:
        if key not in self._shown_notes:
            self._shown_notes.add(key)
            self.view.note(text)

    def _footer(self, status: RunStatus) -> str:
        parts = [status.name, _counts(status.tasks), duration(status.age(status.began))]
        records = [record for task in status.tasks if (record := self._progress(task))]
        steps = [record.step for record in records if record.step is not None]
        losses = [record.loss for record in records if record.loss is not None]
        rates = [record.examples_per_s for record in records if record.examples_per_s is not None]
        parts += [f"step {max(steps)}"] if steps else []
        parts += [f"loss {sum(losses) / len(losses):.4g}"] if losses else []
        parts += [f"{sum(rates):,.0f} examples/s"] if rates else []
        return "  ".join(parts)

    def _progress(self, task: TaskStatus) -> Progress | None:
        if task.phase != "running" or task.role == "server":
            return None
        try:
            return Progress.from_json(
                self._folder.progress(Task.parse(task.task)).read_text(encoding="utf-8")
            )
        except (OSError, ValueError):
            return None


def _counts(tasks: Collection[TaskStatus]) -> str:
    """`ps 2/2, worker 1/2`: how many tasks of each job run."""
    jobs: dict[str, list[bool]] = {}
    for task in tasks:
        jobs.setdefault(task.task.partition(":")[0], []).append(task.phase in ("running", "done"))
    return ", ".join(f"{job} {sum(up)}/{len(up)}" for job, up in jobs.items())
