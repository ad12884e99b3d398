"""What tasks print, on its way to disk, and what becomes of it when the disk is full."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from psclust.testing.wait import wait_until
from psclust.transport.api import Output
from psclust.transport.log_pump import LogPump


@pytest.fixture
def pump() -> Iterator[LogPump]:
    pump = LogPump()
    yield pump
    pump.close()


def test_of_what_found_no_room_the_end_is_remembered() -> None:
    output = Output().plus(b"kept, ", 6).plus(b"half kept", 5).plus(b", lost", 0)
    assert output == Output(b"kept, half kept, lost", 10, b"kept, lost")
    output = output.plus(b"x" * 100_000 + b"end", 50_000).plus(b"kept again", 10)
    assert output.lost == 10 + 50_003
    assert len(output.unkept) == len(output.tail) < 20_000
    assert output.unkept.endswith(b"xend")
    assert output.tail.endswith(b"xendkept again")


def test_a_task_prints_on_when_the_disk_is_full(pump: LogPump, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.symlink_to("/dev/full")
    write, sink = pump.add(log)
    os.write(write, b"one\n")
    os.write(write, b"two\n")
    wait_until(
        lambda: sink.output == Output(b"one\ntwo\n", 8, b"one\ntwo\n"), what="both lines in memory"
    )
    os.close(write)
    assert sink.ended.wait(300)


def test_a_log_for_whose_name_there_was_no_room_is_begun_when_there_is_some(
    pump: LogPump, tmp_path: Path
) -> None:
    log = tmp_path / "logs" / "log"
    write, sink = pump.add(log)
    os.write(write, b"lost\n")
    wait_until(lambda: sink.output.lost == 5, what="the loss")
    log.parent.mkdir()
    os.write(write, b"kept\n")
    os.close(write)
    assert sink.ended.wait(300)
    assert log.read_bytes() == b"kept\n"
    assert sink.output == Output(b"lost\nkept\n", 5, b"lost\n")
