"""events.jsonl of real runs."""

from __future__ import annotations

import pytest
import yaml

from beds.command import CommandBed
from psclust.rundir.events_file import Record, read_events
from psclust.rundir.samples_file import TaskSample, read_samples
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process

WAIT = "until [ -e finish ]; do sleep 0.05; done"
WORKERS = ("--ps", "0", "--workers", "2", "--", "bash", "-c", WAIT)


def events(bed: CommandBed) -> list[Record]:
    return list(read_events(bed.run_folder().events))


def test_a_run_records_its_starts_a_death_the_restart_and_the_end(bed: CommandBed) -> None:
    up = bed.start("up", *WORKERS)
    bed.signal("worker:1")
    bed.wait_for("worker:1", "running", attempt=2)
    bed.write("finish", "")
    assert up.wait() == 0, up.output
    found = events(bed)
    of_one = [(each["kind"], each["attempt"]) for each in found if each.get("task") == "worker:1"]
    assert of_one == [
        ("start", 1),
        ("process", 1),
        ("exit", 1),
        ("restart", 1),
        ("start", 2),
        ("process", 2),
        ("exit", 2),
    ]
    assert [each["kind"] for each in found[:2]] == ["run", "plan"]
    assert [(each["kind"], each["ok"]) for each in found[-2:]] == [
        ("stopping", True),
        ("end", True),
    ]
    ends = [each for each in found if each["kind"] == "exit" and each["attempt"] == 1]
    assert ends[0]["exit_code"] in (0, 137)
    times = [each["run_s"] for each in found]
    assert times == sorted(times)


def test_what_tasks_use_is_sampled_over_all_attempts_and_the_cluster_file_is_kept(
    bed: CommandBed,
) -> None:
    bed.write("psclust.yaml", "jobs: {ps: 0, worker: 1}\n")
    up = bed.start("up", "-f", "psclust.yaml", "--workers", "2", "--", "bash", "-c", WAIT)
    folder = bed.run_folder()
    wait_until(lambda: list(read_samples(folder.samples)), what="a sample")
    bed.signal("worker:1")
    wait_until(
        lambda: any(
            each.tasks.get("worker:1", TaskSample(0)).attempt == 2
            for each in read_samples(folder.samples)
        ),
        what="a sample of the next attempt",
    )
    bed.write("finish", "")
    assert up.wait() == 0, up.output
    found = list(read_samples(folder.samples))
    assert all(task.memory for each in found for task in each.tasks.values())
    assert [each.run_s for each in found] == sorted(each.run_s for each in found)
    kept = yaml.safe_load(folder.cluster_file.read_text())
    assert kept["jobs"] == {"ps": {"count": 0}, "worker": {"count": 2}}
    assert kept["hosts"] == "local"
