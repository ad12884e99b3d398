"""The connections that a task's server has closed because their peers are not of the run, as the
server shim counts them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Strangers:
    """closed: how many connections, by all attempts of the task on its host. last: the address of
    the last, with its uid if it was a process of the same machine."""

    closed: int = 0
    last: str = ""


def read_strangers(path: Path) -> Strangers:
    """None so far without the file."""
    try:
        count, _, last = path.read_text(encoding="ascii").partition(" ")
        return Strangers(int(count), last.strip())
    except (OSError, ValueError):
        return Strangers()
