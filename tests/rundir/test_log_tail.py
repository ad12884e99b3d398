"""The last lines of logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from psclust.rundir.log_tail import last_line, tail, tail_of, tail_offsets


@pytest.mark.parametrize("count", [0, 1, 3, 5, 100])
@pytest.mark.parametrize(
    "texts",
    [["a\nb\n", "c\nd\n"], ["a\n", "", "b\nc"], ["x" * 70_000 + "\n", "y\n" * 40_000], ["\n\n"]],
)
def test_so_many_lines_follow_the_places_where_to_begin(
    tmp_path: Path, count: int, texts: list[str]
) -> None:
    logs = [tmp_path / f"{index}.log" for index in range(len(texts))]
    for log, text in zip(logs, texts, strict=True):
        log.write_text(text)
    begin = tail_offsets(logs, count)
    lines = "".join(texts).splitlines()
    assert [
        line for log in logs for line in log.read_bytes()[begin[log] :].decode().splitlines()
    ] == lines[len(lines) - count if count < len(lines) else 0 :]


def test_a_log_that_is_not_there_yet_is_read_from_its_beginning(tmp_path: Path) -> None:
    assert tail_offsets([tmp_path / "no.log"], 5) == {tmp_path / "no.log": 0}


def test_the_tail_is_the_last_lines_without_empty_ones_at_the_end(tmp_path: Path) -> None:
    assert tail(b"a\nb\nc\n\n\n", 2) == ("b", "c")
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(1000)))
    assert tail_of(path, 2) == ("line 998", "line 999")
    assert tail_of(tmp_path / "none", 2) == ()


def test_a_tail_has_bars_once_and_long_lines_shortened() -> None:
    assert tail(b"10 %\r20 %\r30 %\nfailed\n", 20) == ("30 %", "failed")
    (line,) = tail(b"a" * 50_000 + b"the reason", 20)
    assert len(line) < 2100
    assert line.startswith("aaaa")
    assert line.endswith("the reason")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("\n \n", ""),
        ("Traceback:\n  File\nKeyError: 'x'\n\n", "KeyError: 'x'"),
        ("  a\n b ", "b"),
        ("one", "one"),
    ],
)
def test_the_last_line_is_the_last_that_is_not_blank(text: str, line: str) -> None:
    assert last_line(text) == line
