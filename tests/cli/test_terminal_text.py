"""What of a task's text reaches a terminal."""

from __future__ import annotations

import io

import pytest

from psclust.cli.terminal_text import cut, look_of, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain grün \U0001f600", "plain grün \U0001f600"),
        ("a\tb", "a\tb"),
        ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m\x1b[0m"),
        ("\x1b[1;38;5;196mleft on", "\x1b[1;38;5;196mleft on\x1b[0m"),
        ("\x1b[2J\x1b[H", r"\x1b[2J\x1b[H"),
        ("\x1b[?1049h\x1b[?25l", r"\x1b[?1049h\x1b[?25l"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x1bc\x1b(0\x1bP1$r\x1b\\", r"\x1bc\x1b(0\x1bP1$r\x1b" + "\\"),
        ("\x1b[>4;2m", r"\x1b[>4;2m"),
        ("\x9b2J\x85\x7f\x08", r"\x9b2J\x85\x7f\x08"),
        ("cut in the middle \x1b[3", r"cut in the middle \x1b[3"),
    ],
)
def test_colors_pass_and_commands_to_the_terminal_are_escaped(text: str, shown: str) -> None:
    assert visible(text, colors=True) == shown
    assert "\x1b" not in visible(text)


def test_without_colors_they_are_left_out() -> None:
    assert visible("\x1b[31mred\x1b[0m and \x07") == r"red and \x07"


@pytest.mark.parametrize(
    ("text", "columns", "kept", "width"),
    [
        ("abcdef", 4, "abcd", 4),
        ("中文字", 5, "中文", 4),
        ("u\u0308ber", 2, "u\u0308b", 2),
        ("\x1b[31mabc\x1b[0mdef", 4, "\x1b[31mabc\x1b[0md\x1b[0m", 4),
        ("\x1b[31mabc\x1b[0m", 9, "\x1b[31mabc\x1b[0m", 3),
        ("a\tb", 9, "a   b", 5),
    ],
)
def test_a_line_is_cut_by_the_columns_it_takes(
    text: str, columns: int, kept: str, width: int
) -> None:
    assert cut(text, columns) == (kept, width)


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environ", "look"),
    [
        (Tty(), {"TERM": "xterm"}, (True, True, True)),
        (Tty(), {"TERM": "xterm", "NO_COLOR": "1"}, (True, False, False)),
        (Tty(), {"TERM": "dumb"}, (False, False, False)),
        (Tty(), {}, (False, False, False)),
        (io.StringIO(), {"TERM": "xterm"}, (False, False, False)),
    ],
)
def test_a_stream_gets_what_it_can_show(
    stream: io.StringIO, environ: dict[str, str], look: tuple[bool, bool, bool]
) -> None:
    found = look_of(stream, environ)
    assert (found.redraws, found.moves, found.colors) == look
