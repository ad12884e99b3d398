"""A run whose supervisor or guard is killed, stands still, or can do nothing: it ends, and `up` and
`ps` say the same of it."""

from __future__ import annotations

import os
import resource
import signal
import sys
from pathlib import Path

import psutil
import pytest
from full_disk import fill

from beds.command import CommandBed, typed
from beds.processes import words_of
from psclust.rundir.status_file import read_status
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process

SLEEP = typed("--ps 0 --workers 2 -- sleep 600")
# Each leaves a process in a session of its own.
STRAYS = typed("--ps 0 --workers 2 -- bash -c 'setsid sleep 700 & sleep 600'")


def limited(bed: CommandBed, limit: str) -> CommandBed:
    """Whose commands run under a limit of the shell's."""
    return CommandBed(
        bed.folder,
        bed.environ,
        ("bash", "-c", f'ulimit {limit}; exec "$@"', "-", sys.executable, "-m", "psclust"),
        bed.mark,
    )


def supervisor(bed: CommandBed) -> psutil.Process:
    """Of the run, once both tasks run."""
    bed.wait_for("worker:1", "running")
    return bed.supervisor()


# ------------------------------------------------------------------------------------ too few files


@pytest.mark.parametrize(("limit", "workers"), [(64, 40), (20, 2)])
def test_too_few_open_files_are_told_before_anything_starts(
    bed: CommandBed, limit: int, workers: int
) -> None:
    said = limited(bed, f"-n {limit}").fails(
        3, "up", "--ps", "0", "--workers", str(workers), "--", "sleep", "100"
    )
    assert f"{workers} tasks need about" in said
    assert f"this shell allows {limit} (ulimit -Hn)" in said


def test_a_soft_limit_of_files_is_raised_for_the_supervisor_alone(bed: CommandBed) -> None:
    limited(bed, "-Sn 64").done(
        "up", "--ps", "0", "--workers", "20", "--", "bash", "-c", "ulimit -Sn; ulimit -Hn"
    )
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert bed.log("worker:19").split() == ["64", str(hard)]


def test_a_supervisor_that_can_open_no_file_ends_the_run_and_says_so(bed: CommandBed) -> None:
    up = bed.start("up", *SLEEP)
    process = supervisor(bed)
    process.rlimit(psutil.RLIMIT_NOFILE, (8, 8))
    bed.signal("worker:0")
    assert up.wait() == 3, up.output
    assert "worker:0 could not be started: too many open files: psclust may have 8" in up.output


# ------------------------------------------------------------------------ killed, or standing still


def test_a_killed_guard_is_named_and_its_supervisor_does_its_work(bed: CommandBed) -> None:
    up = bed.start("up", *STRAYS)
    process = supervisor(bed)
    wait_until(
        lambda: sum("700" in words_of(other) for other in bed.processes()) == 2,
        what="two that left their group",
    )
    os.kill(process.ppid(), signal.SIGKILL)
    assert up.wait() == 1, up.output
    assert "the run's guard was killed" in up.output
    assert not bed.processes()


def test_an_up_killed_before_its_supervisor_answers_leaves_nothing(bed: CommandBed) -> None:
    up = bed.start("up", *SLEEP)
    wait_until(lambda: bed.cluster().current() is not None, what="a run's folder")
    wait_until(lambda: len(bed.processes()) > 1, what="the guard")
    up.process.kill()
    up.wait()
    wait_until(lambda: not bed.processes(), what="the end of the run")


def test_a_term_for_a_supervisor_that_has_just_been_forked_is_not_lost(bed: CommandBed) -> None:
    up = bed.start("up", *SLEEP)
    guard = wait_until(lambda: psutil.Process(up.process.pid).children(), what="the guard")[0]
    wait_until(guard.children, what="the supervisor")[0].terminate()
    assert up.wait() != 0, up.output
    assert "the supervisor got SIGTERM" in up.output
    assert not bed.processes()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_kills_a_supervisor_that_stands_still(bed: CommandBed, number: int) -> None:
    up = bed.start("up", *SLEEP)
    process = supervisor(bed)
    process.suspend()
    for stopping in ("once more to stop now", "stopping now"):
        up.process.send_signal(number)
        wait_until(
            lambda stopping=stopping: stopping in up.output,  # type: ignore[misc]
            what=stopping,
        )
    assert up.wait() == (130 if number == signal.SIGINT else 143), up.output
    assert "the supervisor did not answer" in up.output
    assert not bed.processes()
    assert "the supervisor did not answer" in bed.run_here("ps")[1]


@pytest.mark.parametrize("guard_too", [False, True])
def test_down_ends_a_run_whose_supervisor_stands_still(bed: CommandBed, guard_too: bool) -> None:
    bed.done("up", "-d", *STRAYS)
    process = supervisor(bed)
    guard = psutil.Process(process.ppid())
    process.suspend()
    if guard_too:
        guard.suspend()
    assert "does not answer" in bed.done("down", "--now")
    assert not bed.processes()


@pytest.mark.parametrize("options", [(), ("--now",)])
def test_down_ends_with_its_code_at_once_as_in_order(
    bed: CommandBed, options: tuple[str, ...]
) -> None:
    up = bed.start("up", *SLEEP)
    bed.wait_for("worker:0", "running")
    bed.done("down", *options)
    assert up.wait() == 143, up.output


def test_guard_and_supervisor_killed_together_are_named_by_up_and_by_ps(bed: CommandBed) -> None:
    up = bed.start("up", *SLEEP)
    process = supervisor(bed)
    both = (psutil.Process(process.ppid()), process)
    for one in both:
        one.suspend()
    for one in both:
        one.kill()
    assert up.wait() == 1, up.output
    for said in (up.output, bed.run_here("ps")[1]):
        assert "the supervisor and its guard were killed" in said


def test_a_supervisor_that_cannot_start_is_quoted_by_up_and_by_ps(bed: CommandBed) -> None:
    up = bed.start("up", *SLEEP, env={"PYTHONPATH": str(_without_grpc_server(bed.folder))})
    assert up.wait() == 3, up.output
    assert "the supervisor did not start: RuntimeError: no server today" in up.output
    assert "the supervisor did not start: RuntimeError: no server today" in bed.run_here("ps")[1]


def _without_grpc_server(folder: Path) -> Path:
    """A folder whose sitecustomize makes gRPC's server fail."""
    hook = folder / "hook"
    hook.mkdir()
    text = """
import importlib.abc, sys
class Hook(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "psclust.control.supervisor_service":
            raise RuntimeError("no server today")
sys.meta_path.insert(0, Hook())
"""
    (hook / "sitecustomize.py").write_text(text)
    return hook


# -------------------------------------------------------------------------------------- a full disk


@pytest.mark.parametrize("ending", ["well", "badly"])
def test_on_a_full_disk_up_and_ps_say_the_same_of_the_end(
    small_disk: CommandBed, ending: str
) -> None:
    script = "until [ -e finish ]; do sleep 0.05; done; " + (
        "true" if ending == "well" else "echo the reason; exit 7"
    )
    up = small_disk.start("up", "--ps", "0", "--workers", "2", "--", "bash", "-c", script)
    supervisor(small_disk)
    fill(small_disk.state)
    small_disk.write("finish", "")
    code, said = up.wait(), small_disk.run("ps")[1]
    told = "ended well" if ending == "well" else "exited with code 7"
    assert code == (0 if ending == "well" else 1), up.output
    assert told in up.output
    assert told in said
    if ending == "badly":
        failed = [
            task.exit_code
            for task in read_status(small_disk.run_folder()).tasks
            if task.phase == "failed"
        ]
        assert failed[:1] == [7]
