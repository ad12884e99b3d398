"""The last lines of logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from psclust.rundir.log_tail import tail_offsets


@pytest.mark.parametrize("count", [0, 1, 3, 5, 100])
@pytest.mark.parametrize("texts", [["a\nb\n", "c\nd\n"], ["a\n", "", "b\nc"], ["x" * 70_000 + "\n", "y\n" * 40_000], ["\n\n"]])
def test_so_many_lines_follow_the_places_where_to_begin(tmp_path: Path, count: int, texts: list[str]) -> None:
    logs = [tmp_path / f"{index}.log" for index in range(len(texts))]
    for log, text in zip(logs, texts, strict=True):
        log.write_text(text)
    begin = tail_offsets(logs, count)
    lines = "".join(texts).splitlines()
    assert [line for log in logs for line in log.read_bytes()[begin[log] :].decode().splitlines()] == lines[
        len(lines) - count if count < len(lines) else 0 :
    ]


def test_a_log_that_is_not_there_yet_is_read_from_its_beginning(tmp_path: Path) -> None:
    assert tail_offsets([tmp_path / "no.log"], 5) == {tmp_path / "no.log": 0}
