"""`psclust logs`: the output of tasks."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

import click

from psclust.cli import output
from psclust.cli.ages import clock_text, parse_age
from psclust.cli.common_options import run_dir_option
from psclust.cli.completions import names_and_tasks
from psclust.cli.follower import Follower
from psclust.cli.run_selection import find_tasks, job_runs
from psclust.cli.streams import reader_has_left
from psclust.errors import UsageError
from psclust.launch.job_runs import JobRuns
from psclust.rundir.folder import ClusterFolder, RunFolder
from psclust.rundir.status import DROPPED, RunStatus, TaskStatus
from psclust.rundir.timed_lines import LogLine, TimedLog, merged
from psclust.spec.cluster import Task
from psclust.spec.plurals import counted

OVER = ("done", "failed", "stopped", "backoff", DROPPED)  # phases of a task without a process
_POLL_S = 0.1


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(min=0),
    metavar="N",
    help="Begin with the last N lines of each task (default: all).",
)
@click.option("--since", metavar="AGE", help="Only lines printed within the last 30s, 5m, 2h ...")
@click.option(
    "-t", "--timestamps", is_flag=True, help="Show when each line was printed; tasks in that order."
)
@click.option(
    "--grep", metavar="PATTERN", help="Only lines in which this regular expression is found."
)
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object a line: time, task, attempt, text."
)
@click.argument(
    "words", nargs=-1, metavar="[NAME] [TASK...]", shell_complete=names_and_tasks(live=False)
)
@run_dir_option
def command(
    follow: bool,
    lines: int | None,
    since: str | None,
    timestamps: bool,
    grep: str | None,
    as_json: bool,
    words: tuple[str, ...],
    run_dir: str | None,
) -> int:
    """Show what the tasks of a run printed, all attempts. TASK is worker:0, or worker for all tasks
    of that job.

    \b
    psclust logs -n 50 worker                 the last lines of every worker
    psclust logs -f --since 5m --grep loss
    """
    chosen = LineFilter(
        None if since is None else time.time() - parse_age(since, "--since"), _pattern(grep)
    )
    cluster, status, tasks = find_tasks(words, run_dir, live=False)
    folder = RunFolder(Path(status.folder))
    view = output.LiveView(tasks or [task.task for task in status.tasks])
    runs = job_runs()
    if not timestamps and not as_json and chosen == LineFilter():
        return _show_all(cluster, runs, status, view, tasks, follow=follow, last=lines)
    query = LogQuery(folder, tasks, chosen)
    while True:
        going = follow and not status.ended and cluster.is_live()
        _show(query.lines(status, lines), view, timestamps=timestamps, as_json=as_json)
        if reader_has_left():
            return 141
        if not going:
            break
        time.sleep(_POLL_S)
        lines, status = None, runs.status(folder)
    view.close()
    if query.undated:
        output.error(
            f"left out {counted(query.undated, 'line')} that psclust does not know "
            "the time of (--since)."
        )
    return 0


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise UsageError(f"--grep {text}: not a regular expression: {error}.") from None


def _show(
    lines: Iterable[LogLine], view: output.LiveView, *, timestamps: bool, as_json: bool
) -> None:
    for line in lines:
        if as_json:
            output.json_line(asdict(line))
        else:
            view.lines(
                line.task,
                [f"{clock_text(line.time)}  {line.text}\n" if timestamps else f"{line.text}\n"],
            )


def _show_all(
    cluster: ClusterFolder,
    runs: JobRuns,
    status: RunStatus,
    view: output.LiveView,
    tasks: Sequence[str],
    *,
    follow: bool,
    last: int | None,
) -> int:
    """Every line, as `up` shows them."""
    only = [Task.parse(task) for task in tasks]
    follower = Follower(RunFolder(Path(status.folder)), view, only, last=last)
    while follow and not status.ended and cluster.is_live():
        if not follower.show(status):
            time.sleep(_POLL_S)
        if reader_has_left():
            return 141
        status = runs.status(RunFolder(Path(status.folder)))
    follower.finish(status)
    view.close()
    if not follower.has_shown and last != 0 and not reader_has_left():
        output.say(_silence(status, tasks))
    return 0


def _silence(status: RunStatus, tasks: Sequence[str]) -> str:
    """Instead of the output of tasks that have none."""
    who = ", ".join(tasks) or status.name
    if not status.ended:
        return f"{who} {'has' if len(tasks) < 2 else 'have'} printed nothing yet."
    if status.ok or any(task.attempt for task in status.tasks):
        return f"{who} printed nothing."
    how = "was stopped" if status.was_stopped else "failed"
    return f"{who} printed nothing; the run {how}: {status.text}"


@dataclass(frozen=True, slots=True)
class LineFilter:
    """since: seconds since the epoch. None: any."""

    since: float | None = None
    pattern: re.Pattern[str] | None = None


class LogQuery:
    """The chosen lines of `tasks`, all tasks if empty. undated: how many lines were left out
    because their time is not known."""

    def __init__(self, folder: RunFolder, tasks: Collection[str], chosen: LineFilter) -> None:
        self._folder = folder
        self._tasks = frozenset(tasks)
        self._chosen = chosen
        self._logs: dict[tuple[str, int], TimedLog] = {}
        self.undated = 0

    def lines(self, status: RunStatus, last: int | None = None) -> Iterator[LogLine]:
        """Lines printed since the last call. last: at most so many of each task."""
        tasks = [task for task in status.tasks if not self._tasks or task.task in self._tasks]
        found = (filter(self._is_chosen, self._of_task(status, task)) for task in tasks)
        return merged(iter(deque(lines, last)) if last is not None else lines for lines in found)

    def _of_task(self, status: RunStatus, task: TaskStatus) -> Iterator[LogLine]:
        over = task.attempt if status.ended or task.phase in OVER else task.attempt - 1
        logs = ((number, self._log(task.task, number)) for number in range(1, task.attempt + 1))
        return chain.from_iterable(log.lines(over=number <= over) for number, log in logs)

    def _log(self, task: str, attempt: int) -> TimedLog:
        path = self._folder.log(Task.parse(task), attempt)
        return self._logs.setdefault((task, attempt), TimedLog(path, task, attempt))

    def _is_chosen(self, line: LogLine) -> bool:
        since, pattern = self._chosen.since, self._chosen.pattern
        if pattern is not None and not pattern.search(line.text):
            return False
        if since is not None and line.time is None:
            self.undated += 1
            return False
        return since is None or (line.time is not None and line.time >= since)
