"""Prints messages, tables and JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from psclust.cli import streams
from psclust.cli.live_view import LiveView
from psclust.cli.terminal_text import look_of, paint, visible

__all__ = ["LiveView", "data", "duration", "error", "report_lost_output", "say", "table"]

_DIM, _RED = "\x1b[2m", "\x1b[31m"


def error(text: str) -> None:
    """Print a message to standard error, each line marked as psclust's."""
    sys.stdout.flush()
    mark = paint("psclust:", _RED, look_of(sys.stderr).colors)
    print(
        "\n".join(f"{mark} {visible(line)}" for line in text.splitlines()),
        file=sys.stderr,
        flush=True,
    )


def say(text: str = "") -> None:
    print("\n".join(map(visible, text.split("\n"))), flush=True)


def data(value: object) -> None:
    print(json.dumps(value, indent=1), flush=True)


def json_line(value: object) -> None:
    """One of many."""
    print(json.dumps(value))


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns are as wide as their widest cell, whatever the terminal's width: scripts read
    this."""
    shown = [[visible(cell.replace("\n", " ")) for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    head, *lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in shown
    )
    print("\n".join([paint(head, _DIM, look_of(sys.stdout).colors), *lines]), flush=True)


def duration(seconds: float) -> str:
    """`8 s`, `3 min`, `2 h`."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def report_lost_output(consequence: str = "") -> None:
    """Report on standard error, once, that standard output has failed."""
    lost = streams.unreported_failure()
    if lost is not None:
        error(f"standard output cannot be written ({lost.strerror}){consequence}")
