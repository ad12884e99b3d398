"""`events.jsonl`: what happened in a run and what was decided about it, one JSON object a line.
docs/events.md is its reference."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from psclust.rundir.task_progress import Model
from psclust.rundir.whole_lines import WholeLines, read_lines
from psclust.spec.typed_json import Measured, converter, parse_json

FORMAT = 1
_TASK = ("task", "host", "attempt")
_ENDING = ("ok", "exit_code", "reason")

# kind -> its fields, besides `time`, `run_s` and `kind`. Within one FORMAT, fields may be added and
# none is removed.
KINDS: Mapping[str, tuple[str, ...]] = {
    "run": ("name", "run", "psclust", "python", "format"),
    "plan": ("tasks", "changed", "removed"),
    "start": _TASK,
    "process": (*_TASK, "pid"),
    "not_started": (*_TASK, "reason"),
    "serving": (*_TASK, "address"),
    "stage": (*_TASK, "stage"),
    "progress": (*_TASK, "phase", "step", "loss", "metrics", "seconds", "model"),
    "exit": (*_TASK, "exit_code", "reason", "after_s", "step"),
    "restart": (*_TASK, "reason", "delay_s"),
    "signal": (*_TASK, "signal"),
    "host_silent": ("host",),
    "host_back": ("host",),
    "host_leaves": ("host", "reason"),
    "host_lost": ("host", "reason", "tasks"),
    "move": ("hosts", "reason"),
    "replace": (*_TASK, "reason"),
    "workers": ("number", "joined", "left", "dropped"),
    "note": ("text",),
    "stalled": ("findings",),
    "silence": ("text", "findings"),
    "finishing": ("tasks", "limit_s"),
    "stopping": (*_ENDING, "cause", "collateral"),
    "end": _ENDING,
    "unwritten": ("records",),
}

_ALWAYS = ("time", "run_s", "kind")
# Which types the fields have, so that a damaged line is left out and reaches no reader.
_TYPES: Mapping[str, Any] = {
    **dict.fromkeys(("time", "run_s", "after_s", "delay_s", "limit_s"), float),
    **dict.fromkeys(("kind", "name", "run", "psclust", "python", "task", "host"), str),
    **dict.fromkeys(("stage", "signal", "reason", "text"), str),
    **dict.fromkeys(("format", "attempt", "pid", "records", "number"), int),
    **dict.fromkeys(("exit_code", "step"), int | None),
    **dict.fromkeys(("address", "phase", "cause"), str | None),
    **dict.fromkeys(("tasks", "hosts", "changed", "removed", "collateral"), tuple[str, ...]),
    **dict.fromkeys(("joined", "left", "dropped"), tuple[str, ...]),
    "ok": bool,
    "loss": Measured | None,
    "metrics": Mapping[str, Measured],
    "seconds": Mapping[str, float],
    "model": Model | None,
    "findings": tuple[Mapping[str, Any], ...],
}
_OF_KIND: Mapping[tuple[str, str], Any] = {
    ("plan", "tasks"): tuple[Mapping[str, str | None], ...],
}
# Of findings and planned tasks: what their readers show.
_NAMED = {"findings": ("task", "does"), "tasks": ("task", "role")}
# Younger than the FORMAT that they belong to.
_NEWER = {("exit", "step")}

Record = Mapping[str, Any]


def record(kind: str, **fields: object) -> Record:
    """One event, still without its time."""
    return {"kind": kind, **fields}


class EventsFile:
    """Appends to the file at `path`, whole lines only. Records that find no room are counted, and
    the next one that does is preceded by their number: a full disk must not end a run."""

    def __init__(self, path: Path) -> None:
        self._lines = WholeLines(path)
        self._unwritten = 0

    def append(self, records: Iterable[Record], time_s: float, run_s: float) -> None:
        """time_s: seconds since the epoch. run_s: seconds since the supervisor began."""
        found = list(records)
        if not found:
            return
        late = [record("unwritten", records=self._unwritten)] if self._unwritten else []
        when = {"time": round(time_s, 3), "run_s": round(run_s, 3)}
        data = "".join(f"{json.dumps({**when, **each})}\n" for each in (*late, *found)).encode()
        if self._lines.append(data):
            self._unwritten = 0
        else:
            self._unwritten += len(found)


def read_events(path: Path) -> Iterator[Record]:
    """The events so far, in order; none if there is no file. Ignores an unfinished last line, and
    lines that are no events."""
    for line in read_lines(path):
        with suppress(ValueError):
            event = parse_json(line)
            _check(event)
            yield event


def _check(data: Any) -> None:
    """Raises ValueError for anything but a whole event."""
    if not isinstance(data, dict) or not isinstance(kind := data.get("kind"), str):
        raise ValueError("an event is a JSON object with a kind")  # noqa: TRY004 - bad data
    wanted = (*_ALWAYS, *KINDS.get(kind, ()))
    missing = [name for name in wanted if name not in data and (kind, name) not in _NEWER]
    if missing:
        raise ValueError(f"{missing[0]} is missing")
    for name in _TYPES.keys() & data.keys():
        converter(_OF_KIND.get((kind, name), _TYPES[name]))(data[name])
    for name, keys in _NAMED.items():
        for each in data.get(name) or ():
            if isinstance(each, dict) and not all(isinstance(each.get(key), str) for key in keys):
                raise ValueError(f"{name}: {' or '.join(keys)} is missing")
