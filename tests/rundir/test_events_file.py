"""events.jsonl on disk: whole lines, in order, whatever happens to the disk or the writer."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from psclust.rundir.events_file import EventsFile, read_events, record


def test_records_are_appended_with_their_times(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    file = EventsFile(path)
    file.append([], 0.5, 0.1)
    assert not path.exists()
    file.append([record("note", text="a\nb"), record("note", text="c")], 1000.12345, 0.5)
    assert list(read_events(path)) == [
        {"time": 1000.123, "run_s": 0.5, "kind": "note", "text": "a\nb"},
        {"time": 1000.123, "run_s": 0.5, "kind": "note", "text": "c"},
    ]
    assert list(read_events(tmp_path / "none")) == []


def test_another_writer_removes_a_line_that_was_left_unfinished(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    EventsFile(path).append([record("note", text="a")], 1, 1)
    with path.open("a") as file:
        file.write('{"time": 2, "kin')
    assert [each["text"] for each in read_events(path)] == ["a"]
    EventsFile(path).append([record("note", text="b")], 3, 3)
    assert [each["text"] for each in read_events(path)] == ["a", "b"]


@contextmanager
def no_file_grows_beyond(size: int) -> Iterator[None]:
    """As on a full disk: a write puts down what there is room for, the next one fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_costs_whole_lines_and_says_how_many(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    file = EventsFile(path)
    file.append([record("note", text="first")], 1, 1)
    with no_file_grows_beyond(100):
        file.append([record("note", text="x" * 100)], 2, 2)
        file.append([record("note", text="y" * 100), record("note", text="z")], 3, 3)
    assert path.read_text().count("\n") == 1
    file.append([record("note", text="last")], 4, 4)
    assert [each.get("text", each.get("records")) for each in read_events(path)] == [
        "first",
        3,
        "last",
    ]


def test_a_file_that_cannot_be_opened_is_tried_again(tmp_path: Path) -> None:
    file = EventsFile(tmp_path / "later" / "events.jsonl")
    file.append([record("note", text="a")], 1, 1)
    (tmp_path / "later").mkdir()
    file.append([record("note", text="b")], 2, 2)
    assert [each["kind"] for each in read_events(tmp_path / "later" / "events.jsonl")] == [
        "unwritten",
        "note",
    ]
