"""Lines out of bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from psclust.rundir.log import LineSplitter, LogReader, tail, tail_of


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([b"one\ntwo\n"], ["one", "two"]),
        ([b"on", b"e\ntw", b"o"], ["one", "two"]),
        (["grün\n".encode()[:3], "grün\n".encode()[3:]], ["grün"]),
        ([b"bad \xff byte\n"], ["bad \ufffd byte"]),
        ([b"end\xc3"], ["end\ufffd"]),
        ([b"10 %\r20 %\r", b"done\n"], ["10 %", "20 %", "done"]),
        ([b"dos\r", b"\nnext\r\n"], ["dos", "next"]),
        ([b"\n\n"], ["", ""]),
        ([b"form\x0cfeed and \xe2\x80\xa8 stay in one line\n"], ["form\x0cfeed and \u2028 stay in one line"]),
        ([b"last\r"], ["last"]),
    ],
)
def test_lines_come_whole_however_the_bytes_arrive(chunks: list[bytes], lines: list[str]) -> None:
    splitter = LineSplitter()
    found = [line for chunk in chunks for line in splitter.feed(chunk)]
    assert [*found, *splitter.close()] == lines


def test_a_reader_follows_a_file_that_does_not_exist_yet(tmp_path: Path) -> None:
    path = tmp_path / "log"
    reader = LogReader(path)
    assert list(reader.read()) == []
    with path.open("ab") as file:
        file.write(b"one\ntw")
        file.flush()
        assert list(reader.read()) == ["one"]
        file.write(b"o\nthree")
    assert list(reader.finish()) == ["two", "three"]


def test_the_tail_is_the_last_lines_without_empty_ones_at_the_end(tmp_path: Path) -> None:
    assert tail(b"a\nb\nc\n\n\n", 2) == ("b", "c")
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(1000)))
    assert tail_of(path, 2) == ("line 998", "line 999")
    assert tail_of(tmp_path / "none", 2) == ()
