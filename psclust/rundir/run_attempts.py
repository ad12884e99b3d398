"""The attempts of all tasks of a run and what each did when, from the run's events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from psclust.rundir.events_file import Record

# What an attempt does, besides the phases of psclust programs.
START, SERVE, RUN = "start", "serve", "run"


@dataclass(slots=True)
class Attempt:
    """phases: (what, since when), in order. ended_s: None if it has not. All times: seconds since
    the supervisor began. exit_code: None if it has not ended, or got no process. reason: how it
    ended, as a clause. was_asked: whether psclust had sent it a signal to end."""

    task: str
    host: str
    number: int
    phases: list[tuple[str, float]] = field(default_factory=list)
    ended_s: float | None = None
    exit_code: int | None = None
    reason: str | None = None
    was_asked: bool = False

    @property
    def failed(self) -> bool:
        """Whether it ended by itself, and not well."""
        return self.reason is not None and self.exit_code != 0 and not self.was_asked

    def segments(self, now_s: float) -> list[tuple[str, float, float]]:
        """(what, from, to). now_s: for an attempt that has not ended."""
        ends = [
            *(since for _, since in self.phases[1:]),
            now_s if self.ended_s is None else self.ended_s,
        ]
        return [
            (what, since, max(since, until))
            for (what, since), until in zip(self.phases, ends, strict=True)
        ]


def run_attempts(events: Iterable[Record]) -> list[Attempt]:
    """In the order in which they began; what had no exit ends with the run."""
    attempts: dict[tuple[str, int], Attempt] = {}
    roles: dict[str, str] = {}
    for event in events:
        kind, at = event["kind"], event["run_s"]
        if kind == "plan":
            roles |= {each["task"]: each["role"] for each in event["tasks"]}
        elif kind == "start":
            key = event["task"], event["attempt"]
            attempts[key] = Attempt(event["task"], event["host"], event["attempt"], [(START, at)])
        elif kind == "end":
            for each in attempts.values():
                each.ended_s = at if each.ended_s is None else each.ended_s
        elif (
            attempt := attempts.get((event.get("task", ""), event.get("attempt", 0)))
        ) is not None:
            _apply(attempt, event, roles.get(attempt.task))
    return list(attempts.values())


def _apply(attempt: Attempt, event: Record, role: str | None) -> None:
    kind, at = event["kind"], event["run_s"]
    if kind in ("exit", "not_started"):
        attempt.ended_s, attempt.exit_code, attempt.reason = (
            at,
            event.get("exit_code"),
            event["reason"],
        )
    elif kind == "signal":
        attempt.was_asked = True
    elif kind == "serving":
        attempt.phases.append((SERVE, at))
    elif kind == "process" and role != "server":
        attempt.phases.append((RUN, at))
    elif kind == "progress" and event["phase"] and event["phase"] != "done":
        attempt.phases.append((event["phase"], at))
