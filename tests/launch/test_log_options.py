"""`psclust logs` with its options, of real tasks."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest

from beds.command import CommandBed
from psclust.rundir.log_times import times_path
from psclust.spec.cluster import Task
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process

SCRIPT = (
    "echo first $0; until [ -e go ]; do sleep 0.02; done; echo second $0; until [ -e finish ]; "
    "do sleep 0.02; done; echo last $0"
)
UP = ("--ps", "0", "--workers", "2", "--", "bash", "-c", SCRIPT, "{task_index}")


def objects(bed: CommandBed, *args: str) -> list[dict[str, object]]:
    said = bed.done_here("logs", "--json", *args)
    return [json.loads(line) for line in said.splitlines()]


def test_lines_have_the_times_at_which_they_were_printed(bed: CommandBed) -> None:
    began = time.time()
    up = bed.start("up", *UP)
    up.until("first", 2)
    between = time.time()
    time.sleep(0.2)  # longer than times are exact
    bed.write("go", "")
    wait_until(lambda: len(objects(bed)) == 4, what="the second lines, with their times")
    bed.write("finish", "")
    assert up.wait() == 0, up.output
    found = objects(bed)
    words = [str(line["text"]).split()[0] for line in found]
    assert words == ["first"] * 2 + ["second"] * 2 + ["last"] * 2
    times: list[Any] = [line["time"] for line in found]
    assert began < times[0] <= times[1] < between + 0.2 <= times[2] <= times[5] < time.time()
    assert {(line["task"], line["attempt"]) for line in found} == {("worker:0", 1), ("worker:1", 1)}
    assert [line["text"] for line in objects(bed, "worker:1", "--grep", "^s.*nd")] == ["second 1"]
    assert sorted(str(line["text"]) for line in objects(bed, "worker", "-n", "1")) == [
        "last 0",
        "last 1",
    ]
    assert len(objects(bed, "--since", "1h")) == 6
    assert objects(bed, "--since", "0.001s") == []
    said = bed.done_here("logs", "--timestamps", "worker:0")
    assert re.fullmatch(r"(worker:0 \| (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d\.\d  \w+ 0\n){3}", said), (
        said
    )


def test_following_shows_what_fits_until_the_run_ends(bed: CommandBed) -> None:
    up = bed.start("up", *UP)
    bed.wait_for("worker:1", "running")
    follower = bed.start("logs", "-f", "-t", "--grep", "second|last")
    bed.write("go", "")
    follower.until("second", 2)
    bed.write("finish", "")
    assert up.wait() == 0
    assert follower.wait() == 0
    assert "first" not in follower.output
    assert follower.output.count("last") == 2


def test_lines_without_a_known_time_are_named_not_dated(bed: CommandBed) -> None:
    bed.write("go", "")
    bed.write("finish", "")
    bed.done("up", *UP)
    times_path(bed.run_folder().log(Task("worker", 1), 1)).unlink()
    assert {line["time"] for line in objects(bed, "worker:1")} == {None}
    assert bed.run_here("logs", "-t", "worker:1")[1].count("time unknown") == 3
    said = bed.done_here("logs", "--since", "1h")
    assert said.count("worker:0 |") == 3
    assert "left out 3 lines that psclust does not know the time of" in said


def test_wrong_options_are_explained(bed: CommandBed) -> None:
    assert bed.fails_here(2, "logs", "--since", "soon") == (
        "psclust: --since soon: found no age; write a number with its unit: "
        "30s, 5min, 12h, 7d or 4w.\n"
    )
    assert "--grep (: not a regular expression" in bed.fails_here(2, "logs", "--grep", "(")


def test_tasks_without_output_are_said_to_have_none(bed: CommandBed) -> None:
    script = "test $0 = 0 || echo word; until [ -e finish ]; do sleep 0.02; done"
    up = bed.start("up", "--ps", "0", "--workers", "2", "--", "bash", "-c", script, "{task_index}")
    up.until("worker:1 | word")
    assert bed.done_here("logs") == "worker:1 | word\n"
    assert bed.done_here("logs", "worker:0") == "worker:0 has printed nothing yet.\n"
    assert bed.done_here("logs", "-n", "0") == ""
    assert bed.done_here("logs", "--grep", "other") == ""
    follower = bed.start("logs", "-f", "worker:0")
    bed.write("finish", "")
    assert up.wait() == 0, up.output
    assert follower.wait() == 0
    assert follower.output == "worker:0 printed nothing.\n"
