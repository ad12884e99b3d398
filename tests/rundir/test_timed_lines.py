"""When lines were printed: the times beside a log, and lines of several logs in their order."""

from __future__ import annotations

import os
from pathlib import Path

from psclust.rundir.log_times import ENTRY, LogTimes, TimesWriter, times_path
from psclust.rundir.timed_lines import LogLine, TimedLog, merged


def timed(log: Path, *parts: tuple[str, float]) -> None:
    """Append text to a log, read at these times."""
    writer = TimesWriter(log)
    for text, at in parts:
        with log.open("a") as file:
            file.write(text)
        writer.note(log.stat().st_size, at)
    writer.close()


def texts(log: TimedLog, *, over: bool = True) -> list[tuple[str, float | None]]:
    return [(line.text, line.time) for line in log.lines(over=over)]


def test_a_line_has_the_time_at_which_it_was_complete(tmp_path: Path) -> None:
    log = tmp_path / "worker-0.1.log"
    timed(log, ("one\nhalf", 100.0), (" a line\n", 105.0), ("and \u03c1\n", 107.0))
    assert texts(TimedLog(log, "worker:0", 1)) == [
        ("one", 100.0),
        ("half a line", 105.0),
        ("and \u03c1", 107.0),
    ]


def test_entries_are_a_tenth_of_a_second_apart_and_the_last_one_is_not_lost(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    writer = TimesWriter(log)
    for number in range(25):
        writer.note(number + 1, 100 + number / 100)
    assert writer.due is not None
    writer.close()
    times = LogTimes(log)
    times.read()
    assert times.known_to == 25
    assert times_path(log).stat().st_size == 4 * ENTRY.size
    assert all(
        abs((times.of(number + 1) or 0) - (100 + number / 100)) <= 0.1 for number in range(25)
    )


def test_what_was_printed_without_a_time_says_so(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    timed(log, ("known\n", 100.0))
    with log.open("a") as file:
        file.write("unknown\nrest")
    assert texts(TimedLog(log, "a:0", 1)) == [("known", 100.0), ("unknown", None), ("rest", None)]
    old = tmp_path / "old.log"
    old.write_text("line\n")
    assert texts(TimedLog(old, "a:0", 1)) == [("line", None)]


def test_after_an_entry_that_found_no_room_nothing_is_dated(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    times_path(log).symlink_to("/dev/full")
    writer = TimesWriter(log)
    writer.note(5, 100.0)
    times_path(log).unlink()
    writer.note(10, 200.0)
    writer.close()
    times = LogTimes(log)
    times.read()
    assert times.of(3) is None
    assert times.of(10) is None


def test_a_log_that_grows_is_read_as_far_as_its_times_go(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    reader = TimedLog(log, "a:0", 1)
    assert texts(reader, over=False) == []
    timed(log, ("one\n", 100.0))
    with log.open("a") as file:
        file.write("two\n")
    assert texts(reader, over=False) == [("one", 100.0)]
    with times_path(log).open("ab") as file:
        file.write(ENTRY.pack(8, 101.0) + b"half an ent")
    assert texts(reader, over=False) == [("two", 101.0)]
    with log.open("a") as file:
        file.write("its time never comes\n")
    os.utime(times_path(log), (0, 0))
    assert texts(reader, over=False) == [("its time never comes", None)]


def test_a_redrawn_line_and_a_very_long_one_keep_their_places(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    timed(
        log, ("10%\r50%\r", 100.0), ("100%\n", 101.0), ("x" * 300_000, 102.0), ("\nlast\n", 103.0)
    )
    found = texts(TimedLog(log, "a:0", 1))
    assert (found[0], found[-1]) == (("100%", 101.0), ("last", 103.0))
    assert "".join(text for text, _ in found[1:-1]) == "x" * 300_000


def test_lines_of_several_tasks_come_in_the_order_of_their_times(tmp_path: Path) -> None:
    def lines(task: str, *found: tuple[str, float | None]) -> list[LogLine]:
        return [LogLine(task, 1, text, at) for text, at in found]

    a = lines("a:0", ("a1", 1.0), ("a?", None), ("a4", 4.0))
    b = lines("b:0", ("b?", None), ("b2", 2.0), ("b3", 3.0))
    assert [line.text for line in merged([iter(a), iter(b)])] == [
        "b?",
        "a1",
        "a?",
        "b2",
        "b3",
        "a4",
    ]
