"""Files of a run folder that are cut off, damaged, or of another program: their readers give the
records that are there, or say in a sentence that there are none."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beds.damage import DATA, damaged, likely
from psclust.cli.run_report.contents import (
    began,
    event_cells,
    facts,
    numbers,
    placement,
    places,
    task_cells,
    versions,
)
from psclust.cli.run_report.story import read_story
from psclust.cli.verbs.why import trouble
from psclust.errors import NoRunError
from psclust.rundir.agents_file import LiveAgents, keep_agents, mark_dead, mark_detached
from psclust.rundir.batch_job import BatchJob
from psclust.rundir.events_file import KINDS, EventsFile, read_events, record
from psclust.rundir.folder import ENDING_BYTES, ClusterFolder, RunFolder
from psclust.rundir.links_file import Link, read_links
from psclust.rundir.old_runs import old_runs
from psclust.rundir.origin import Origin
from psclust.rundir.samples_file import Sample, TaskSample, read_samples
from psclust.rundir.status import RunStatus, TaskStatus
from psclust.rundir.status_file import read_status, record_death, write_status
from psclust.rundir.task_progress import Progress

TASK = TaskStatus("worker:0", "program", "running", "a", "a:1", 7, 1, 0, None, 1000.0, None)
STATUS = RunStatus("demo", "run", "/run", "live", 1, 1000.0, (TASK,), notes=("a",), cause="ps:0")
MODEL = {
    "folder": "/model",
    "tensorflow": "2.21",
    "ps": [{"variables": 2, "bytes": 30, "largest": "w"}],
}
NAMES = {"task": "worker:0", "host": "a", "attempt": 1}
FIELDS: dict[str, Any] = {
    **NAMES,
    **{"name": "demo", "run": "r", "psclust": "0.1", "python": "3.12", "format": 1},
    **{"tasks": ["worker:0"], "changed": [], "removed": [], "pid": 7, "reason": "was killed"},
    **{"address": "a:1", "stage": "joined", "phase": "train", "step": 7, "loss": 0.5},
    **{"number": 3, "joined": ["worker:3"], "left": [], "dropped": ["worker:1"]},
    **{"metrics": {"loss": 0.5}, "seconds": {"saving": 1.0, "train": 2.0}, "model": MODEL},
    **{"exit_code": 137, "after_s": 3.0, "delay_s": 0.5, "signal": "TERM", "hosts": ["a"]},
    **{"text": "x", "findings": [{"task": "worker:0", "does": "trains"}], "limit_s": 3.0},
    **{"ok": False, "cause": "worker:0", "collateral": [], "records": 3},
}


def event(kind: str) -> dict[str, Any]:
    fields = {name: FIELDS[name] for name in KINDS[kind]}
    if kind == "plan":
        fields["tasks"] = [{"task": "worker:0", "role": "program", "host": "a", "address": None}]
    return {"time": 1000.0, "run_s": 1.0, **record(kind, **fields)}


EVENTS = [event(kind) for kind in KINDS]
SAMPLE = Sample(1000.0, 1.0, {"worker:0": TaskSample(1, 0.5, 100, 10, 20, 3, 0.5, 10.0, 1.0)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return ClusterFolder(tmp_path_factory.mktemp("runs") / "demo").new_run()


@given(damaged(STATUS.to_json()) | likely(json.loads(STATUS.to_json())))
def test_a_status_is_read_or_the_run_has_ended_without_one(
    folder: RunFolder, content: bytes
) -> None:
    folder.status.write_bytes(content)
    folder.ending.write_bytes(b" " * ENDING_BYTES)
    found = read_status(folder)
    assert found.ended
    assert RunStatus.from_json(found.to_json()) == found
    story = read_story(folder, found)
    assert [*facts(story), *places(story), began(story), versions(story)]
    assert task_cells(story).head
    json.dumps(numbers(story))
    record_death(folder, "was killed")
    assert read_status(folder).ended
    lock = ClusterFolder(folder.path.parent).lock()
    assert lock is not None
    try:
        live = read_status(folder)
        assert RunStatus.from_json(live.to_json()) == live
    except NoRunError as error:
        assert str(error) == "demo: the run has not begun yet."  # noqa: PT017
    finally:
        os.close(lock)


@example([json.dumps({**event("restart"), "reason": None}).encode()])
@given(
    st.lists(st.sampled_from(EVENTS).flatmap(likely) | damaged(json.dumps(EVENTS[2])), max_size=3)
)
def test_events_that_are_none_hide_no_other(folder: RunFolder, lines: list[bytes]) -> None:
    write_status(folder, replace(STATUS, phase="ended", ok=True, exit_code=0))
    folder.events.write_bytes(b"".join(line.replace(b"\n", b" ") + b"\n" for line in lines))
    EventsFile(folder.events).append(map_without_times(EVENTS), 1000.0, 1.0)
    found = list(read_events(folder.events))
    assert found[-len(EVENTS) :] == EVENTS
    story = read_story(folder, read_status(folder))
    assert event_cells(story).rows
    assert [*facts(story), *places(story), *placement(story), versions(story)]
    json.dumps(numbers(story))
    assert list(trouble(found, 1000.0))


def map_without_times(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in each.items() if name not in ("time", "run_s")}
        for each in events
    ]


@given(st.lists(likely(asdict(SAMPLE)) | damaged(SAMPLE.to_json()), max_size=3))
def test_samples_that_are_none_hide_no_other(folder: RunFolder, lines: list[bytes]) -> None:
    write_status(folder, replace(STATUS, phase="ended"))
    last = SAMPLE.to_json().encode()
    folder.samples.write_bytes(
        b"".join(line.replace(b"\n", b" ") + b"\n" for line in [*lines, last])
    )
    assert list(read_samples(folder.samples))[-1] == SAMPLE
    story = read_story(folder, read_status(folder))
    assert task_cells(story).rows[0][:2] == ("worker:0", "a")


PROGRESS = Progress(3, 0.5, 10.0, "train", {"loss": 0.5}, {"train": 1.0}, MODEL)


@given(damaged(PROGRESS.to_json()) | likely(asdict(PROGRESS)))
def test_progress_is_read_or_refused(content: bytes) -> None:
    try:
        found = Progress.from_json(content.decode("utf-8", "replace"))
    except ValueError as error:
        assert str(error)  # noqa: PT017
    else:
        assert isinstance(found, Progress)
        assert found.step is None or found.step + 1 > found.step
        assert sum(found.seconds.values()) is not None
        for held in (found.model or {"ps": ()})["ps"]:
            assert held["bytes"] is not None


AGENTS = LiveAgents(("a", "b"), 30.0, 86400.0)


@given(damaged(json.dumps(asdict(AGENTS))) | likely(asdict(AGENTS)))
def test_the_agents_of_a_run_are_known_or_not(folder: RunFolder, content: bytes) -> None:
    folder.agents.write_bytes(content)
    mark_detached(folder)
    found = mark_dead(folder, 1000.0)
    if found is not None:
        assert f"{found.names} {found.lasts_s + 1.0:.0f}"
    keep_agents(folder, ["a"])


@given(st.binary(max_size=20) | DATA.map(lambda data: json.dumps(data).encode()))
def test_small_records_are_read_or_as_if_they_were_not_there(
    folder: RunFolder, content: bytes
) -> None:
    for path in (folder.job, folder.origin, folder.status, folder.ending):
        path.write_bytes(content)
    links = folder.path.parent.parent / "_links.json"
    links.write_bytes(content)
    assert isinstance(BatchJob.read(folder.job), BatchJob | None)
    assert isinstance(Origin.read(folder), Origin | None)
    assert all(isinstance(link, Link) for link in read_links(links.parent))
    assert ClusterFolder(folder.path.parent).is_live() in (True, False)
    assert [run.run for run in old_runs(links.parent)] == [folder.id]
