"""A live table of a run: what `psclust top` shows, from two readings and the time between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from psclust.placement.table import format_bytes
from psclust.spec.jobs import PS
from psclust.supervise.reading import Reading
from psclust.transport.gpu_usage import GpuUsage

_T = TypeVar("_T")
_CURVE = "▁▂▃▄▅▆▇█"
_PLAIN_CURVE = "_.-=+*#@"
_STATES = {
    "running": "green",
    "done": "dim",
    "failed": "red",
    "dropped": "yellow",
    "backoff": "yellow",
    "frozen": "magenta",
}


@dataclass(frozen=True, slots=True)
class Row:
    """A task between two readings. cpu: cores. received, sent: bytes a second. None: unknown."""

    now: Reading
    cpu: float | None = None
    memory: int | None = None
    received: float | None = None
    sent: float | None = None

    @property
    def moved(self) -> float:
        return (self.received or 0.0) + (self.sent or 0.0)

    def to_dict(self) -> dict[str, object]:
        reading = self.now
        return {
            "task": reading.task,
            "host": reading.host,
            "state": reading.state,
            "attempt": reading.attempt,
            "cpu_cores": self.cpu,
            "memory_bytes": self.memory,
            "received_bytes_per_s": self.received,
            "sent_bytes_per_s": self.sent,
            "unread_bytes": reading.usage.unread if reading.usage else None,
            "unsent_bytes": reading.usage.unsent if reading.usage else None,
            "gpu_busy": reading.gpu.busy,
            "gpu_memory_bytes": reading.gpu.memory,
            "step": reading.step,
            "step_age_s": reading.step_age_s,
            "examples_per_s": reading.examples_per_s,
            "loss": reading.loss,
            "staleness": reading.staleness,
            "strangers": reading.strangers,
        }


def rows(now: Sequence[Reading], before: Sequence[Reading], seconds: float) -> list[Row]:
    """before: a reading `seconds` ago."""
    known = {reading.task: reading for reading in before}
    found = []
    for reading in now:
        old = known.get(reading.task)
        if reading.usage is None:
            found.append(Row(reading))
        elif old is None or old.usage is None or old.attempt != reading.attempt:
            found.append(Row(reading, memory=reading.usage.memory))
        else:
            cpu, received, sent = reading.usage.rates(old.usage, seconds)
            found.append(Row(reading, cpu, reading.usage.memory, received, sent))
    return found


def hottest(found: Sequence[Row]) -> str | None:
    """The ps that moves the most bytes, and its share of what all ps move; None where less than two
    do."""
    servers = [row for row in found if row.now.task.startswith(f"{PS}:")]
    total = sum(row.moved for row in servers)
    if len(servers) < 2 or not total:
        return None
    row = max(servers, key=lambda row: row.moved)
    return f"{row.now.task} moves {100 * row.moved / total:.0f} % of the bytes of {len(servers)} ps"


def curve(losses: Sequence[float], *, plain: bool, width: int = 40) -> str:
    """The last losses as a line of blocks, or of characters that every terminal has."""
    shown = losses[-width:]
    low, high = min(shown), max(shown)
    signs = _PLAIN_CURVE if plain else _CURVE
    return "".join(
        signs[round((loss - low) / (high - low) * (len(signs) - 1)) if high > low else 0]
        for loss in shown
    )


def view(
    name: str, found: Sequence[Row], losses: Sequence[float], *, width: int, plain: bool
) -> RenderableType:
    """`width`: columns of the terminal; on a narrow one, hosts, staleness and the memory of GPUs
    give way."""
    wide, gpus = width >= 100, any(row.now.gpu != GpuUsage() for row in found)
    gpu = ("GPU", *(("GPU MEM",) if wide else ())) if gpus else ()
    table = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    for title in ("TASK", *(("HOST",) if wide else ()), "STATE"):
        table.add_column(title, no_wrap=True)
    for title in (
        *(("ATTEMPT",) if wide else ()),
        "CPU",
        "MEMORY",
        *gpu,
        "IN/s",
        "OUT/s",
        "STEP",
        "EX/s",
        *(("STALE",) if wide else ()),
        "LAST",
    ):
        table.add_column(title, justify="right", no_wrap=True)
    for row in found:
        reading = row.now
        cells = [
            reading.task,
            *((reading.host,) if wide else ()),
            Text(reading.state, _STATES.get(reading.state, "")),
        ]
        cells += [str(reading.attempt)] if wide else []
        cells += [
            _number(row.cpu, lambda cpu: f"{100 * cpu:.0f} %"),
            _number(row.memory, format_bytes),
        ]
        shown = [
            _number(row.now.gpu.busy, lambda busy: f"{100 * busy:.0f} %"),
            _number(row.now.gpu.memory, format_bytes),
        ]
        cells += shown[: len(gpu)]
        cells += [
            _number(rate, lambda each: format_bytes(round(each)))
            for rate in (row.received, row.sent)
        ]
        cells += [
            _number(reading.step, str),
            _number(reading.examples_per_s, lambda rate: f"{rate:,.0f}"),
        ]
        cells += [_number(reading.staleness, lambda mean: f"{mean:.1f}")] if wide else []
        cells += [_number(reading.step_age_s, lambda age: f"{age:.0f} s")]
        table.add_row(*cells)
    lines = [f"{name}  {len(found)} tasks"]
    lines += [line for line in (hottest(found),) if line is not None]
    lines += [f"loss {losses[-1]:.4g}  {curve(losses, plain=plain)}"] if losses else []
    return Group(table, Text("\n".join(lines)))


def _number(value: _T | None, render: Callable[[_T], str]) -> str:
    return "-" if value is None else render(value)


def mean_loss(found: Sequence[Row]) -> float | None:
    """Of the programs that report one."""
    losses = [row.now.loss for row in found if row.now.loss is not None]
    return sum(losses) / len(losses) if losses else None
