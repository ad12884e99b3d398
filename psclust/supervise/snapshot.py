"""The status of a run from its state: shown by commands, printed by `--json`, kept in the run
folder."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from psclust import __version__
from psclust.rundir.folder import RunFolder, log_name
from psclust.rundir.log_tail import tail, tail_of
from psclust.rundir.status import RunStatus, TaskStatus
from psclust.spec.cluster import Task
from psclust.supervise.events import Outcome, Stage
from psclust.supervise.exit_code import shell_code
from psclust.supervise.run_state import RunState, TaskState
from psclust.supervise.stragglers import describe_wait
from psclust.transport.api import Output

TAIL_LINES = 20


def snapshot(
    state: RunState, folder: RunFolder, name: str, outputs: Mapping[Task, Output], now: float
) -> RunStatus:
    """`now` is on the clock of `state`; times in the result are seconds since the epoch."""
    epoch = time.time() - now
    outcome = state.outcome or Outcome(False, 1, "")
    known = state.outcome is not None
    cause_log, cause_tail = _cause(outcome, folder, outputs)
    logs = str(folder.logs)
    return RunStatus(
        name=name,
        run=folder.id,
        folder=str(folder.path),
        phase=state.phase.value,
        supervisor=os.getpid(),
        began=state.began + epoch,
        tasks=tuple(_task_status(entry, logs, outputs, epoch) for entry in state.tasks.values()),
        ok=outcome.ok if known else None,
        exit_code=outcome.exit_code if known else None,
        text=outcome.text if known else None,
        cause=str(outcome.cause) if outcome.cause else None,
        cause_log=cause_log,
        cause_tail=cause_tail,
        collateral=tuple(map(str, outcome.collateral)),
        remedy=outcome.remedy,
        notes=(*(state.plan.notes if state.plan else ()), *state.notes),
        psclust=__version__,
        waiting=describe_wait(state),
        silent=state.silence.text,
        clock=epoch,
    )


def _task_status(
    entry: TaskState, logs: str, outputs: Mapping[Task, Output], epoch: float
) -> TaskStatus:
    task = entry.plan.task
    output = outputs.get(task)
    return TaskStatus(
        task=str(task),
        role=entry.plan.role,
        phase=entry.phase.value,
        host=entry.plan.host,
        address=entry.plan.address,
        pid=entry.pid,
        attempt=entry.attempt,
        restarts=len(entry.restarts),
        exit_code=None if entry.exit_code is None else shell_code(entry.exit_code),
        since=entry.since + epoch,
        joined=entry.joined,
        served=entry.stage is Stage.ANSWERED,
        log=os.path.join(logs, log_name(task, entry.attempt)) if entry.attempt else None,
        lost_output=output.lost if output else 0,
        unkept=output.unkept.decode("latin-1") if output else "",
    )


def _cause(
    outcome: Outcome, folder: RunFolder, outputs: Mapping[Task, Output]
) -> tuple[str | None, tuple[str, ...]]:
    """The log of the attempt that died, and its last lines, from memory if it has lost some."""
    if outcome.cause is None or not outcome.attempt:
        return None, ()
    log, output = folder.log(outcome.cause, outcome.attempt), outputs.get(outcome.cause)
    if output is not None and output.lost:
        return str(log), tail(output.tail, TAIL_LINES)
    return str(log), tail_of(log, TAIL_LINES)
