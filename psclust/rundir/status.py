"""A run as seen from outside: one snapshot, the same in the run folder, over RPC and with
`--json`."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, fields
from typing import Any

from psclust.spec.typed_json import JsonRecord

QUEUED = "queued"  # the phase of a run whose batch job has not started
# Of a run that was asked to save its work and to end; sysexits.h: a temporary failure.
SAVED_CODE = 75


# The phase of a worker that the run goes on without.
DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """One task. exit_code: as a shell shows it (128+n for a signal). since: seconds since the
    epoch."""

    task: str
    role: str
    phase: str
    host: str
    address: str | None
    pid: int | None
    attempt: int
    restarts: int
    exit_code: int | None
    since: float
    log: str | None
    joined: bool = False  # a program whose process is only a server by now
    served: bool = False  # this attempt has accepted a connection at its address
    lost_output: int = 0  # bytes that found no room on disk
    unkept: str = ""  # the last of those, as Latin-1


@dataclass(frozen=True, slots=True)
class RunStatus(JsonRecord):
    """A run. ok, exit_code, text: set once it is decided how the run ends. waiting: which tasks a
    finishing run waits for, or one whose tasks all start again, as a clause. remedy: a sentence,
    for a failure that psclust knows. silent: why it makes no step and prints nothing, as a clause;
    None while it does, or where that is not known. psclust: version of its supervisor. clock: what
    to add to the machine's monotonic clock to get the times in here."""

    name: str
    run: str
    folder: str
    phase: str
    supervisor: int
    began: float
    tasks: tuple[TaskStatus, ...] = ()
    ok: bool | None = None
    exit_code: int | None = None
    text: str | None = None
    cause: str | None = None
    cause_log: str | None = None
    cause_tail: tuple[str, ...] = ()
    collateral: tuple[str, ...] = ()
    remedy: str | None = None
    notes: tuple[str, ...] = ()
    psclust: str | None = None
    waiting: str | None = None
    silent: str | None = None
    clock: float | None = None

    def age(self, moment: float) -> float:
        """Seconds since `moment`, one of this record's times. For a live run, setting the system
        clock has no effect."""
        now = time.time() if self.ended or self.clock is None else time.monotonic() + self.clock
        return max(0.0, now - moment)

    @property
    def ended(self) -> bool:
        return self.phase == "ended"

    @property
    def was_stopped(self) -> bool:
        """Whether a user or the time limit ended the run, and not a task."""
        return not self.ok and self.cause is None and self.exit_code in (SAVED_CODE, 124, 130, 143)

    def to_json(self) -> str:
        """Of a large run ten times a second while it starts: `asdict` and `indent` would take ten
        times as long."""
        return json.dumps({**_values(self), "tasks": [_values(task) for task in self.tasks]})


def _values(record: RunStatus | TaskStatus) -> dict[str, Any]:
    return {name: getattr(record, name) for name in _NAMES[type(record)]}


_NAMES = {
    record: tuple(field.name for field in fields(record)) for record in (RunStatus, TaskStatus)
}
