"""The first process of a pod, here without one: `psclust task` as a child of the test, with its
task as a plain command."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

from beds.command import CommandBed, Running
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process


def start(
    bed: CommandBed,
    program: str,
    *,
    job: str = "chief",
    jobs: str = "chief: 1",
    extra: str = "",
    **more: str,
) -> Running:
    text = (
        f"name: d\njobs: {{{jobs}}}\nprogram: {program}\nrole_by: none\n"
        f"deadlines: {{stop: 1, finish: 1}}\n{extra}"
    )
    environ: Mapping[str, str] = {"PSCLUST_FILE": text, "JOB_COMPLETION_INDEX": "0", **more}
    return bed.start("task", job, env=environ)


@pytest.mark.parametrize(
    ("program", "extra", "code"),
    [
        ("[sh, -c, exit 0]", "", 0),
        ("[sh, -c, exit 7]", "", 7),
        ("[sh, -c, kill -9 $$]", "", 137),
        ("[/no/such/command]", "", 127),
        ("[/etc/passwd]", "", 126),
        ("[sh, -c, exit 0]", "cwd: /no/such/folder", 127),
    ],
)
def test_a_pod_ends_as_its_task_does(bed: CommandBed, program: str, extra: str, code: int) -> None:
    running = start(bed, program, extra=extra)
    assert running.wait() == code
    assert ("is it in the image?" in running.output) == (code in (126, 127))


def test_an_exit_code_that_counts_as_success_is_one_for_kubernetes(bed: CommandBed) -> None:
    assert start(bed, "[sh, -c, exit 3]", jobs="chief: {ok_exit_codes: [0, 3]}").wait() == 0


def test_a_pod_that_is_deleted_ends_its_task_politely_and_then_by_force(bed: CommandBed) -> None:
    running = start(
        bed, "[sh, -c, 'trap \"echo asked\" TERM; echo up; while :; do sleep 0.1; done']"
    )
    running.until("up")
    running.process.send_signal(signal.SIGTERM)
    assert running.wait() == 143
    assert "asked" in running.output


def test_a_program_that_waits_for_its_servers_can_be_deleted(bed: CommandBed) -> None:
    running = start(bed, "m:p", job="worker", jobs="ps: 1, worker: 1")
    running.until("worker:0 waits for ps:0 at d-ps-0-0.d:2222")
    running.process.send_signal(signal.SIGTERM)
    assert running.wait() == 143


def test_what_the_task_leaves_behind_is_gone_with_it(bed: CommandBed) -> None:
    running = start(bed, "[sh, -c, 'sleep 1000 & echo up; wait']")
    running.until("up")
    inner = psutil.Process(running.process.pid).children(recursive=True)
    running.process.send_signal(signal.SIGTERM)
    running.wait()
    wait_until(
        lambda: (
            not any(
                process.is_running() and process.status() != psutil.STATUS_ZOMBIE
                for process in inner
            )
        ),
        what="the end",
    )


@pytest.mark.parametrize(
    ("program", "job", "stopped"),
    [
        ("[sh, -c, exit 7]", "chief", False),
        ("[sh, -c, echo up; sleep 1000]", "chief", True),
        ("[sh, -c, exit 0]", "cheif", False),
    ],
    ids=["ended", "deleted", "refused"],
)
def test_no_folder_is_left_behind(
    bed: CommandBed, tmp_path: Path, program: str, job: str, stopped: bool
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    running = start(bed, program, job=job, TMPDIR=str(temporary))
    if stopped:
        running.until("up")
        assert list(temporary.iterdir())
        running.process.send_signal(signal.SIGTERM)
    running.wait()
    assert not list(temporary.iterdir())


def test_variables_of_other_clusters_do_not_reach_the_task(bed: CommandBed) -> None:
    running = start(bed, "[sh, -c, 'echo file=$PSCLUST_FILE task=$PSCLUST_TASK']")
    assert running.wait() == 0
    assert "file= task=chief:0" in running.output
