"""Lines out of bytes."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from psclust.rundir.log_reader import LONGEST, LineSplitter, LogReader


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([b"one\ntwo\n"], ["one", "two"]),
        ([b"on", b"e\ntw", b"o"], ["one", "two"]),
        (["grün\n".encode()[:3], "grün\n".encode()[3:]], ["grün"]),
        ([b"bad \xff byte\n"], ["bad \ufffd byte"]),
        ([b"end\xc3"], ["end\ufffd"]),
        ([b"dos\r", b"\nnext\r\n"], ["dos", "next"]),
        ([b"\n\n"], ["", ""]),
        (
            [b"form\x0cfeed and \xe2\x80\xa8 stay in one line\n"],
            ["form\x0cfeed and \u2028 stay in one line"],
        ),
        ([b"last\r"], ["last"]),
    ],
)
def test_lines_come_whole_however_the_bytes_arrive(chunks: list[bytes], lines: list[str]) -> None:
    assert split(chunks) == [f"{line}\n" for line in lines]
    assert split([bytes([byte]) for byte in b"".join(chunks)]) == [f"{line}\n" for line in lines]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"10 %\r20 %\r100 %\ndone\n", ["100 %", "done"]),
        (b"10 %\r20 %\r100 %\r\ndone\n", ["100 %", "done"]),
        (b"\r 10 %\r 20 %\r 100 %\ndone\n", [" 100 %", "done"]),
        (b"\r\x1b[2K10 %\r\x1b[K20 %\x1b[K\n", ["20 %"]),
        (b"10 %\r20 %", ["20 %"]),
        (b"10 %\r    \rdone\n", ["done"]),
        (b"10 %\r    \r", []),
        (b"erased here:\x1b[K\n", ["erased here:\x1b[K"]),
    ],
)
def test_of_a_progress_bar_the_last_state_stays(data: bytes, lines: list[str]) -> None:
    assert split([data]) == [f"{line}\n" for line in lines]
    assert split([bytes([byte]) for byte in data]) == [f"{line}\n" for line in lines]


def test_a_progress_bar_is_seen_while_it_is_redrawn() -> None:
    splitter = LineSplitter()
    seen = []
    for chunk in (b"start\n", b"10 %\r", b"20 %", b"\r", b"\r30", b" %", b"\n", b"next"):
        splitter.feed(chunk)
        seen.append(splitter.redrawn)
    assert seen == [None, "10 %", "20 %", "20 %", "30", "30 %", None, None]


def test_a_line_without_end_comes_in_pieces_that_make_it_whole() -> None:
    splitter = LineSplitter()
    chunk = b"0123456789" * 2000
    pieces = [piece for _ in range(50) for piece in splitter.feed(chunk)]
    assert len(pieces) > 10
    assert max(map(len, pieces)) <= LONGEST + len(chunk)
    assert (
        "".join([*pieces, *splitter.feed(b"end\nnext\n")]) == "0123456789" * 100_000 + "end\nnext\n"
    )


@pytest.mark.parametrize("unit", [b"x", b"x\r", b"\r", b"\x1b[K", b"\xc3\xa4", b"\xff"])
def test_a_long_line_takes_time_and_memory_in_proportion(unit: bytes) -> None:
    def seconds(size: int) -> float:
        splitter = LineSplitter()
        chunk = unit * ((1 << 16) // len(unit))
        began = time.process_time()
        for _ in range(size // len(chunk)):
            splitter.feed(chunk)
            len(splitter.redrawn or "")
        return time.process_time() - began

    seconds(1 << 21)
    # Sixteen times as much takes sixteen times as long, or two hundred and fifty-six times where it
    # is quadratic.
    assert seconds(1 << 25) < 64 * max(seconds(1 << 21), 0.01)


def split(chunks: list[bytes]) -> list[str]:
    splitter = LineSplitter()
    found = [line for chunk in chunks for line in splitter.feed(chunk)]
    return [*found, *splitter.close()]


def test_a_reader_follows_a_file_that_does_not_exist_yet(tmp_path: Path) -> None:
    path = tmp_path / "log"
    reader = LogReader(path)
    assert reader.read() is None
    with path.open("ab") as file:
        file.write(b"one\ntw")
        file.flush()
        assert reader.read() == ["one\n"]
        assert reader.read() is None
        file.write(b"o\nthree")
    assert reader.read() == ["two\n"]
    assert reader.close() == ["three\n"]


def test_a_reader_takes_a_large_file_in_steps(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 9_000_000 + b"\n")
    reader = LogReader(path)
    pieces = []
    while (lines := reader.read()) is not None:
        assert sum(map(len, lines)) < 1_000_000
        pieces += lines
    assert "".join(pieces) == "x" * 9_000_000 + "\n"


def test_a_progress_bar_of_keras_is_one_line_without_its_backspaces() -> None:
    splitter = LineSplitter()
    bar = "\x1b[1m1/9\x1b[0m \x1b[32m\u2501\x1b[0m loss: 0.1"
    assert splitter.feed(f"{bar}\x08\x08\x08\r{bar}\x08\x08".encode()) == []
    assert splitter.redrawn == bar
    assert splitter.feed(f"\r{bar}2\n".encode()) == [f"{bar}2\n"]


def test_a_log_without_new_lines_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("one\n")
    reader = LogReader(tmp_path / "a.log")
    opened: list[object] = []
    watching = [True]  # a hook stays for good
    sys.addaudithook(
        lambda event, arguments: (
            opened.append(str(arguments[0])) if event == "open" and watching else None
        )
    )
    assert reader.read() == ["one\n"]
    assert str(reader.path) in opened
    opened.clear()
    assert [reader.read() for _ in range(3)] == [None] * 3
    watching.clear()
    assert str(reader.path) not in opened
