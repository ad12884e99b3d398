"""What becomes of a run when something is killed: documented, never a hang, never an orphan (the
`bed` fixture looks for those)."""

from __future__ import annotations

import os
import signal

import pytest

from beds.command import CommandBed
from beds.processes import words_of
from psclust.rundir.events_file import read_events
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

# Runs until the file `finish` appears; a worker that finds it ends well.
PATIENT = """
import os, time
print("here", os.environ["PSCLUST_TASK"], "attempt", os.environ["PSCLUST_ATTEMPT"])
while not os.path.exists("finish"):
    time.sleep(0.02)
print("finished")
"""

FILE = """
jobs:
  ps: {count: 1, run: server}
  worker: {count: 2}
program: patient.py
preload: false
restart: {backoff: 0.1}
deadlines: {stop: 2}
"""


@pytest.fixture
def patient(bed: CommandBed) -> CommandBed:
    bed.write("patient.py", PATIENT)
    bed.write("psclust.yaml", FILE)
    return bed


def test_a_killed_worker_is_started_again_and_the_others_go_on(patient: CommandBed) -> None:
    up = patient.start("up")
    patient.wait_for("worker:0", "running")
    patient.signal("worker:1")
    patient.wait_for("worker:1", "running", attempt=2)
    patient.write("finish", "")
    assert up.wait() == 0, up.output
    assert {task.task: (task.phase, task.attempt) for task in patient.status().tasks} == {
        "ps:0": ("stopped", 1),
        "worker:0": ("done", 1),
        "worker:1": ("done", 2),
    }
    assert "here worker:1 attempt 2" in patient.log("worker:1", 2)


def test_a_killed_ps_is_started_again_at_the_same_address(patient: CommandBed) -> None:
    up = patient.start("up")
    address = patient.wait_for("ps:0", "running").address
    patient.wait_for("worker:0", "running")
    patient.signal("ps:0")
    assert patient.wait_for("ps:0", "running", attempt=2).address == address
    patient.write("finish", "")
    assert up.wait() == 0, up.output


def test_a_frozen_worker_is_shown_as_such_and_can_be_started_anew(patient: CommandBed) -> None:
    up = patient.start("up")
    patient.signal("worker:1", signal.SIGSTOP)
    wait_until(
        lambda: patient.run_here("ps")[1].count("running, frozen") == 1, what="a frozen worker"
    )
    patient.done("restart", "worker:1")
    patient.wait_for("worker:1", "running", attempt=2)
    assert "frozen" not in patient.run_here("ps")[1]
    patient.write("finish", "")
    assert up.wait() == 0, up.output


@pytest.mark.long
def test_killed_fork_servers_harm_no_task_and_are_replaced(patient: CommandBed) -> None:
    patient.write("psclust.yaml", FILE.replace("preload: false", "preload: true"))
    up = patient.start("up")
    patient.wait_for("worker:1", "running")
    servers = [
        process
        for process in patient.processes()
        if "--preload" in words_of(process) and process.pid == os.getsid(process.pid)
    ]
    tasks = {patient.wait_for(task, "running").pid for task in ("ps:0", "worker:0", "worker:1")}
    fork_servers = [process for process in servers if process.pid not in tasks]
    assert len(fork_servers) == 2
    for process in fork_servers:
        process.kill()
    patient.done("restart", "worker:1")
    assert patient.wait_for("worker:0", "running").attempt == 1
    patient.write("finish", "")
    assert up.wait() == 0, up.output


def test_a_killed_supervisor_takes_everything_with_it_and_up_says_so(patient: CommandBed) -> None:
    stray = "import subprocess\nsubprocess.Popen(['sleep', '600'], start_new_session=True)\n"
    patient.write("patient.py", stray + PATIENT)
    up = patient.start("up")
    patient.wait_for("worker:1", "running")
    wait_until(
        lambda: sum("sleep" in words_of(process) for process in patient.processes()) == 2,
        what="what tasks leave behind in sessions of their own",
    )
    status = patient.status()
    patient.supervisor().kill()
    assert up.wait() == 1
    assert "the supervisor was killed by SIGKILL" in up.output
    assert not patient.processes()
    assert not patient.bound_ports(status)
    assert all(
        task.since > before.since
        for task, before in zip(patient.status().tasks, status.tasks, strict=True)
    )
    *_, last = read_events(patient.run_folder().events)
    assert (last["kind"], last["ok"]) == ("end", False)
    assert "was killed by SIGKILL" in last["reason"]


def test_a_killed_up_ends_the_run_it_held(patient: CommandBed) -> None:
    up = patient.start("up")
    patient.wait_for("worker:1", "running")
    up.process.kill()
    up.wait()
    wait_until(lambda: not patient.processes(), what="the end of the run")
    assert "the `psclust up` that held this run is gone" in patient.done_here("ps")


def test_ctrl_c_stops_the_run_and_a_second_one_does_not_wait(patient: CommandBed) -> None:
    patient.write(
        "patient.py", "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + PATIENT
    )
    patient.write("psclust.yaml", FILE.replace("{stop: 2}", "{stop: 600}"))
    up = patient.start("up")
    wait_until(
        lambda: "here" in patient.log("worker:0") and "here" in patient.log("worker:1"),
        what="both workers",
    )
    up.interrupt()
    up.until("once more to stop now")
    up.interrupt()
    assert up.wait() == 130


def test_ctrl_c_ends_a_run_whose_tasks_wait_for_an_interpreter_that_is_still_loading(
    patient: CommandBed,
) -> None:
    slow = patient.write("slow", "#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)
    patient.write(
        "psclust.yaml",
        FILE.replace("preload: false", f"python: {slow}").replace("{stop: 2}", "{stop: 600}"),
    )
    up = patient.start("up")
    patient.wait_for("ps:0", "starting")
    up.interrupt()
    assert up.wait() == 130, up.output
    # The supervisor knows of the tasks a moment before `up` knows of the supervisor.
    assert "was stopped after" in up.output or "was stopped before it was up" in up.output
    assert "interrupted (Ctrl-C)" in up.output
    wait_until(lambda: not patient.processes(), what="the end of all that the run has started")
