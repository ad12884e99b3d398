"""Which types the fields of an event have, so that a damaged line of `events.jsonl` is left out and
reaches no reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psclust.rundir.task_progress import Model
from psclust.spec.typed_json import Measured, converter

_TEXTS = tuple[str, ...]
_NUMBERS = Mapping[str, Measured]

_ALWAYS = ("time", "run_s", "kind")
_TYPES: Mapping[str, Any] = {
    **dict.fromkeys(("time", "run_s", "after_s", "delay_s", "limit_s"), float),
    **dict.fromkeys(("kind", "name", "run", "psclust", "python", "task", "host"), str),
    **dict.fromkeys(("stage", "signal", "reason", "text"), str),
    **dict.fromkeys(("format", "attempt", "pid", "records", "number"), int),
    **dict.fromkeys(("exit_code", "step"), int | None),
    **dict.fromkeys(("address", "phase", "cause"), str | None),
    **dict.fromkeys(("tasks", "hosts", "changed", "removed", "collateral"), _TEXTS),
    **dict.fromkeys(("joined", "left", "dropped"), _TEXTS),
    "ok": bool,
    "loss": Measured | None,
    "metrics": _NUMBERS,
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


def check_event(data: Any, kinds: Mapping[str, tuple[str, ...]]) -> None:
    """kinds: the fields of each that is known. Raises ValueError for anything but a whole event."""
    if not isinstance(data, dict) or not isinstance(kind := data.get("kind"), str):
        raise ValueError("an event is a JSON object with a kind")  # noqa: TRY004 - bad data
    wanted = (*_ALWAYS, *kinds.get(kind, ()))
    missing = [name for name in wanted if name not in data and (kind, name) not in _NEWER]
    if missing:
        raise ValueError(f"{missing[0]} is missing")
    for name in _TYPES.keys() & data.keys():
        converter(_OF_KIND.get((kind, name), _TYPES[name]))(data[name])
    for name, keys in _NAMED.items():
        for each in data.get(name) or ():
            if isinstance(each, dict) and not all(isinstance(each.get(key), str) for key in keys):
                raise ValueError(f"{name}: {' or '.join(keys)} is missing")
