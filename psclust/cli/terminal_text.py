"""Text made safe for a terminal: colors if wanted, all other control sequences escaped, cut to a
number of columns."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO
from unicodedata import combining, east_asian_width

RESET = "\x1b[0m"
_COLOR = re.compile(r"\x1b\[[0-9;:]*m")
# Colors, and whatever a terminal may take as a command, in 7 or 8 bits; tabs stay.
_CONTROL = re.compile(r"\x1b\[[0-9;:]*m|[\x00-\x08\x0a-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Look:
    """The abilities of a stream. redraws: it is a terminal, whose last line can be redrawn. moves:
    it takes cursor commands, so several lines can be redrawn. colors: it shows colors."""

    redraws: bool
    moves: bool
    colors: bool


def look_of(stream: IO[str], environ: Mapping[str, str] = os.environ) -> Look:
    """A dumb terminal is treated as a file; with NO_COLOR, nothing but text and carriage returns is
    written."""
    terminal = stream.isatty() and environ.get("TERM") not in ("dumb", "unknown", "", None)
    plain = bool(environ.get("NO_COLOR"))
    return Look(terminal, terminal and not plain, terminal and not plain)


def paint(text: str, color: str, on: bool) -> str:
    return f"{color}{text}{RESET}" if on and text else text


def visible(text: str, *, colors: bool = False) -> str:
    """`text` with control characters escaped; its colors are reset at the end, or left out."""
    if text.isprintable():
        return text
    shown = _CONTROL.sub(_with_colors if colors else _without_colors, text)
    return f"{shown}{RESET}" if colors and "\x1b" in shown else shown


def cut(text: str, columns: int) -> tuple[str, int]:
    """The part of `text` that fits into so many columns, and its width. `text` has no control
    sequences but colors."""
    if text.isascii() and text.isprintable():
        return text[:columns], min(len(text), columns)
    kept: list[str] = []
    width = begin = 0
    text = text.expandtabs(4)
    for color in [*_COLOR.finditer(text), None]:
        for character in text[begin : color.start() if color else len(text)]:
            wide = 0 if combining(character) else 2 if east_asian_width(character) in "WF" else 1
            if width + wide > columns:
                return "".join(kept) + (RESET if "\x1b" in text else ""), width
            kept.append(character)
            width += wide
        if color:
            kept.append(color[0])
            begin = color.end()
    return "".join(kept), width


def _with_colors(found: re.Match[str]) -> str:
    return found[0] if len(found[0]) > 1 else f"\\x{ord(found[0]):02x}"


def _without_colors(found: re.Match[str]) -> str:
    return "" if len(found[0]) > 1 else f"\\x{ord(found[0]):02x}"
