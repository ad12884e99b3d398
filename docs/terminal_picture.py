"""Makes docs/pictures/up.svg again: runs a psclust command on a terminal, records it, and draws it
as an animation at its own speed.

    python docs/terminal_picture.py
    python docs/terminal_picture.py /tmp/why.svg -- up --workers 2 -- bash -c 'echo hello'

An SVG without script, which stands still on its last picture where the reader prefers that.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from beds.command import CommandBed
from beds.terminal import Terminal

TARGET = Path(__file__).parent / "pictures" / "up.svg"
COMMAND = (
    "up",
    "--ps",
    "2",
    "--workers",
    "2",
    "psclust.examples.digits:program",
    "--model-dir",
    "model",
)
COLUMNS, ROWS = 90, 20
_FRAME_S, _LAST_S = 0.4, 5.0
_WIDE, _HIGH, _EDGE = 8.4, 19, 14  # of a character, and around all, in pixels
_STEP = re.compile(r"\x1b\[(\d*)([AJK])|\x1b\[([0-9;]*)m|([\r\n])|([^\r\n\x1b]+)")
_COLORS = {
    "2": "#8b949e",
    "31": "#ff7b72",
    "32": "#7ee787",
    "33": "#e3b341",
    "34": "#79c0ff",
    "35": "#d2a8ff",
    "36": "#56d4dd",
}
_INK, _PAPER = "#e6edf3", "#0d1117"

Cell = tuple[str, str]  # a character and its color
Row = tuple[Cell, ...]


def record(command: Sequence[str]) -> list[tuple[float, str]]:
    """(seconds, all output so far), whenever there was more. A home stands in place of the folder
    of this recording."""
    with tempfile.TemporaryDirectory(prefix="psclust-") as name:
        home = Path(name)
        bed = CommandBed(home / "demo")
        bed.folder.mkdir()
        environment = bed.environment(
            {"TERM": "xterm", "HOME": name, "PSCLUST_STATE": str(home / ".local/state/psclust")}
        )
        terminal = Terminal(
            [*bed.command, *command], cwd=bed.folder, env=environment, columns=COLUMNS, rows=ROWS
        )
        began, found = time.monotonic(), [(0.0, "")]
        while (running := terminal.process.poll() is None) or len(terminal.written) > len(
            found[-1][1]
        ):
            if len(terminal.written) > len(found[-1][1]):
                found.append((time.monotonic() - began, terminal.written))
            if running:
                time.sleep(_FRAME_S / 8)
        if terminal.wait():
            raise RuntimeError(terminal.written)
        found.append((time.monotonic() - began, terminal.written))
        return [(at, text.replace(name, "/home/me")) for at, text in found]


def screen(written: str) -> list[Row]:
    """The last rows of a terminal that can move its cursor up and erase lines."""
    rows: list[list[Cell]] = [[]]
    row = column = 0
    color = _INK
    for number, command, paint, move, text in _STEP.findall(written):
        if command == "A":
            row = max(0, row - int(number or 1))
        elif command:
            del rows[row][column:], rows[row + 1 if command == "J" else len(rows) :]
        elif move == "\r":
            column = 0
        elif move:
            row, column = row + 1, 0
        elif not text:
            color = _COLORS.get(paint, _INK)
        for character in text:
            if column == COLUMNS:
                row, column = row + 1, 0
            rows += [[] for _ in range(row + 1 - len(rows))]
            rows[row] += [(" ", _INK)] * (column + 1 - len(rows[row]))
            rows[row][column] = (character, color)
            column += 1
        rows += [[] for _ in range(row + 1 - len(rows))]
    while rows and not rows[-1]:
        rows.pop()
    return [tuple(each) for each in rows[-(ROWS - 1) :]]


def draw(recorded: Sequence[tuple[float, str]], command: Sequence[str]) -> str:
    """The frames stand side by side, and the window moves over them. A row that stays is written
    once."""
    prompt = tuple((character, _INK) for character in f"$ psclust {' '.join(command)}"[:COLUMNS])
    frames: list[tuple[float, list[Row]]] = []
    for at, text in recorded:
        shown = [prompt, *screen(text)]
        if (
            not frames
            or (shown != frames[-1][1] and at - frames[-1][0] >= _FRAME_S)
            or (at, text) == recorded[-1]
        ):
            frames.append((at, shown))
    names = {
        row: f"r{number}"
        for number, row in enumerate(
            dict.fromkeys(row for _, rows in frames for row in rows if row)
        )
    }
    width, height = round(COLUMNS * _WIDE + 2 * _EDGE), (ROWS + 1) * _HIGH + 2 * _EDGE
    length_s = frames[-1][0] + _LAST_S
    moves = "".join(
        f"{100 * at / length_s:.2f}%{{transform:translateX({-number * width}px)}}"
        for number, (at, _) in enumerate(frames)
    )
    drawn = "".join(
        f'<use href="#{names[row]}" x="{number * width + _EDGE}" y="{_EDGE + (line + 1) * _HIGH}"/>'
        for number, (_, rows) in enumerate(frames)
        for line, row in enumerate(rows)
        if row
    )
    still = f"transform:translateX({-(len(frames) - 1) * width}px)"
    moving = f"animation:all {length_s:.1f}s step-end infinite"
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    texts = "".join(
        f'<text id="{name}">{"".join(spans(row))}</text>' for row, name in names.items()
    )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">
<title>{escape(" ".join(["psclust", *command]))}</title>
<style>text{{font:14px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre}}
#all{{{still}}}
@media (prefers-reduced-motion:no-preference){{#all{{{moving}}}}}
@keyframes all{{{moves}}}</style>
<rect width="{width}" height="{height}" rx="10" fill="{_PAPER}"/>
<defs>{texts}</defs>
<g id="all">{drawn}</g>
</svg>
"""


def spans(row: Row) -> Iterator[str]:
    """Runs of one color, each as wide as on a terminal, whatever the reader's font."""
    begin = 0
    for end in range(1, len(row) + 1):
        if end == len(row) or row[end][1] != row[begin][1]:
            text = "".join(character for character, _ in row[begin:end])
            where = f'x="{begin * _WIDE:.1f}" textLength="{len(text) * _WIDE:.1f}"'
            yield (
                f'<tspan {where} fill="{row[begin][1]}" xml:space="preserve">{escape(text)}</tspan>'
            )
            begin = end


def main() -> None:
    target, _, command = (
        (Path(sys.argv[1]), *sys.argv[2:3], tuple(sys.argv[3:]))
        if len(sys.argv) > 1
        else (TARGET, "--", COMMAND)
    )
    target.write_text(draw(record(command), command), encoding="utf-8")


if __name__ == "__main__":
    main()
