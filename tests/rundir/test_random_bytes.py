"""Logs of random bytes lose nothing; a run's files may be cut off at any byte."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from psclust.rundir.events_file import EventsFile, read_events, record
from psclust.rundir.log_reader import LONGEST, LogReader, lines_of
from psclust.rundir.log_times import TimesWriter
from psclust.rundir.samples_file import Sample, SamplesFile, TaskSample, read_samples
from psclust.rundir.timed_lines import TimedLog
from psclust.rundir.whole_lines import WholeLines

PIECE = (
    st.binary(max_size=20)
    | st.text(max_size=20).map(lambda text: text.encode("utf-8", "surrogatepass"))
    | st.sampled_from([b"\n", b"\r", b"\r\n", b"\x1b[K", b"\b\b", b"\xe2\x82", b"x" * LONGEST])
)


def expected(data: bytes) -> list[str]:
    """Without carriage returns: nothing but U+FFFD for invalid bytes changes."""
    *lines, last = data.decode("utf-8", "replace").split("\n")
    return lines + ([last] if last.strip() else [])


@given(st.lists(PIECE, max_size=12))
@example([b"a\x1b[K\x1b[K", b"\r", b"\r"])
def test_a_log_has_the_same_lines_however_it_is_cut(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.log"
        reader, read = LogReader(path), list[str]()
        for piece in pieces:
            with path.open("ab") as file:
                file.write(piece)
            read += reader.read() or []
        read += reader.close()
        whole = "".join(read).split("\n")[:-1]
        assert whole == lines_of(data) or (b"\r" in data and len(data) > LONGEST)
        if b"\r" not in data and (not data[-1:].isspace() or data.endswith(b"\n")):
            assert whole == expected(data)


@given(st.lists(PIECE, max_size=8), st.integers(0, 8))
def test_a_log_with_times_has_the_same_lines(pieces: list[bytes], dated: int) -> None:
    data = b"".join(pieces)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.log"
        log, times, found, size = TimedLog(path, "a:0", 1), TimesWriter(path), list[str](), 0
        for number, piece in enumerate(pieces):
            with path.open("ab") as file:
                file.write(piece)
            size += len(piece)
            if number < dated:
                times.note(size, 100.0 + number)
            found += [line.text for line in log.lines(over=False)]
        times.close()
        found += [line.text for line in log.lines(over=True)]
        assert "".join(found) == "".join(lines_of(data)) or b"\r" in data


@given(st.lists(st.text(max_size=20), min_size=1, max_size=5), st.data())
def test_events_that_are_cut_off_anywhere_are_read_and_go_on(
    texts: list[str], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        file = EventsFile(path)
        for text in texts:
            file.append([record("note", text=text)], 1.0, 1.0)
        content = path.read_bytes()
        cut = content[: data.draw(st.integers(0, len(content)))]
        path.write_bytes(cut)
        whole = texts[: cut.count(b"\n")]
        assert [event["text"] for event in read_events(path)] == whole
        EventsFile(path).append([record("note", text="more")], 1.0, 1.0)
        assert [event["text"] for event in read_events(path)] == [*whole, "more"]


@given(st.integers(1, 5), st.data())
def test_samples_that_are_cut_off_anywhere_are_read(count: int, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples.jsonl"
        file = SamplesFile(path)
        for number in range(count):
            file.append(Sample(1.0, float(number), {"ps:0": TaskSample(1, loss=0.5)}))
        content = path.read_bytes()
        cut = content[: data.draw(st.integers(0, len(content)))]
        path.write_bytes(cut)
        assert [each.run_s for each in read_samples(path)] == [
            float(number) for number in range(max(0, cut.count(b"\n") - 1))
        ]


@given(st.lists(st.binary(max_size=10).map(lambda data: data.replace(b"\n", b"") + b"\n")))
@example([b"a\n"])
def test_whole_lines_are_all_there(lines: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lines"
        path.write_bytes(b"unfinished")
        file = WholeLines(path)
        assert all(file.append(line) for line in lines)
        file.close()
        assert path.read_bytes() == (b"".join(lines) if lines else b"unfinished")
