"""A run in which a task hangs says so once, with the task and its line."""

from __future__ import annotations

import re

import pytest
from staged_waits import ONE_HOOK, UNEVEN

from beds.command import CommandBed, Running, typed
from psclust.rundir.events_file import read_events
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process

UNEVEN_OPTIONS = typed(
    "--ps 0 --workers 2 --role-by none --env TASK={task_index} --no-preload train.py"
)
SECONDS = 120.0
SILENT = r"no step and no line of output for 3\d s"


def until_said(running: Running, pattern: str) -> None:
    try:
        wait_until(
            lambda: re.search(f"^psclust: {pattern}$", running.output, re.MULTILINE), SECONDS
        )
    except TimeoutError:
        pytest.fail(f"expected {pattern}, found\n{running.output}")


def end(bed: CommandBed, running: Running) -> None:
    bed.done("down")
    running.wait()


def times_said(running: Running) -> int:
    return running.output.count("no line of output")


@pytest.mark.long
def test_who_has_ended_and_who_is_waited_for_is_said_once_and_taken_back(bed: CommandBed) -> None:
    bed.write("train.py", UNEVEN)
    up = bed.start("up", *UNEVEN_OPTIONS)
    said = (
        r"worker:1 has ended; waiting for worker:0, in its own code: nap \(train.py:[45]\); "
        rf"{SILENT}; psclust why {bed.name} says more"
    )
    until_said(up, said)
    attached = bed.start("attach")
    until_said(attached, said)
    (recorded,) = [
        each for each in read_events(bed.run_folder().events) if each["kind"] == "silence"
    ]
    assert recorded["findings"][0]["stack"][0].startswith("nap (train.py:")
    bed.write("go", "")
    wait_until(
        lambda: bed.status().silent is None,
        20.0,
        what="that there are signs again",
    )
    bed.write("end", "")
    assert up.wait() == 0
    assert attached.wait() == 0
    assert times_said(up) == times_said(attached) == 1


@pytest.mark.long
@pytest.mark.tensorflow
def test_workers_that_all_hang_in_a_session_call_are_named_with_the_line(bed: CommandBed) -> None:
    bed.write("train.py", ONE_HOOK)
    up = bed.start("up", "--ps", "1", "--workers", "2", "train.py")
    place = r"in a session call: s.run\(train_d\) \(train.py:\d+\)"
    until_said(
        up,
        rf"{SILENT}, and no task uses the CPU: worker:0 and worker:1, {place}; "
        rf"psclust why {bed.name} says more",
    )
    assert re.search(rf"^worker:0  {place}, silent for \d", bed.run("why")[1], re.MULTILINE)
    end(bed, up)
    assert times_said(up) == 1
