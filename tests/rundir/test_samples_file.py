"""samples.jsonl on disk: it grows by whole lines, stays small, and keeps what was used in all."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path

from psclust.rundir.samples_file import MOST_SAMPLES, Sample, SamplesFile, TaskSample, read_samples


def sample(second: int, **known: object) -> Sample:
    return Sample(
        1000.0 + second, float(second), {"worker:0": TaskSample(1, cpu_s=float(second), **known)}
    )  # type: ignore[arg-type]


def test_samples_come_back_as_they_were_and_unknown_fields_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    file, taken = SamplesFile(path), [sample(1, loss=0.5), sample(2, received=7, sent=0)]
    for each in taken:
        file.append(each)
    assert list(read_samples(path)) == taken
    assert [list(json.loads(line)) for line in path.read_text().splitlines()] == [
        ["format"],
        *[["time", "run_s", "tasks"]] * 2,
    ]
    with path.open("a") as rest:
        rest.write(
            '{"time": 3, "run_s": 3, "new": 1, "tasks": {"worker:0": {"attempt": 1, "new": '
            '2}}}\n{"time": 4, "ru'
        )
    assert list(read_samples(path))[2:] == [Sample(3, 3, {"worker:0": TaskSample(1)})]
    assert list(read_samples(tmp_path / "none")) == []


def test_the_page_shows_every_field(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "report.md"
    lines = re.findall(r"^    (\{.*\})$", page.read_text(encoding="utf-8"), re.MULTILINE)
    (tmp_path / "samples.jsonl").write_text("\n".join([*lines, ""]))
    (look,) = read_samples(tmp_path / "samples.jsonl")
    assert json.loads(look.to_json()) == json.loads(lines[1])
    assert None not in asdict(look.tasks["worker:0"]).values()


def test_a_full_file_loses_every_other_sample_and_is_written_half_as_often(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    file = SamplesFile(path)
    often_s = file.interval_s
    for second in range(2 * MOST_SAMPLES):
        file.append(sample(second))
        assert len(path.read_text().splitlines()) <= MOST_SAMPLES
    found = [each.run_s for each in read_samples(path)]
    assert file.interval_s == 8 * often_s
    assert found == sorted(found)
    assert found[-1] == 2 * MOST_SAMPLES - 1
    assert found[0] < 8
    assert len(found) > MOST_SAMPLES / 4


def test_many_tasks_are_thinned_out_by_their_bytes(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    file = SamplesFile(path)
    many = {
        f"worker:{number}": TaskSample(1, 1.5, 10**9, 10**12, 10**12, 10**6, 0.12345, 123.4, 1.5)
        for number in range(1000)
    }
    for second in range(60):
        file.append(Sample(0.0, float(second), many))
        assert path.stat().st_size < 4_000_000
    assert list(read_samples(path))[-1].run_s == 59
