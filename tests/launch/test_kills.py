"""What becomes of a run when something is killed: documented, never a hang, never an orphan (the
`bed` fixture looks for those)."""

from __future__ import annotations

import os
import signal

import psutil
import pytest

from beds.command import CommandBed
from beds.processes import words_of
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
    victim = patient.wait_for("worker:1", "running")
    other = patient.wait_for("worker:0", "running")
    assert victim.pid is not None
    os.kill(victim.pid, signal.SIGKILL)
    patient.wait_for("worker:1", "running", attempt=2)
    patient.write("finish", "")
    assert up.wait() == 0, up.output
    status = patient.status()
    assert status is not None
    assert {task.task: (task.phase, task.attempt) for task in status.tasks} == {
        "ps:0": ("stopped", 1),
        "worker:0": ("done", 1),
        "worker:1": ("done", 2),
    }
    assert other.attempt == 1
    assert "here worker:1 attempt 2" in patient.log("worker:1", 2)


def test_a_killed_ps_is_started_again_at_the_same_address(patient: CommandBed) -> None:
    up = patient.start("up")
    ps = patient.wait_for("ps:0", "running")
    patient.wait_for("worker:0", "running")
    assert ps.pid is not None
    os.kill(ps.pid, signal.SIGKILL)
    again = patient.wait_for("ps:0", "running", attempt=2)
    assert again.address == ps.address
    patient.write("finish", "")
    assert up.wait() == 0, up.output


def test_a_frozen_worker_is_shown_as_such_and_can_be_started_anew(patient: CommandBed) -> None:
    up = patient.start("up")
    victim = patient.wait_for("worker:1", "running")
    assert victim.pid is not None
    os.kill(victim.pid, signal.SIGSTOP)
    wait_until(
        lambda: patient.run_here("ps")[1].count("running, frozen") == 1, what="a frozen worker"
    )
    assert patient.run("restart", "worker:1")[0] == 0
    patient.wait_for("worker:1", "running", attempt=2)
    assert "frozen" not in patient.run_here("ps")[1]
    patient.write("finish", "")
    assert up.wait() == 0, up.output


def test_a_worker_killed_too_often_fails_the_run_and_is_named(patient: CommandBed) -> None:
    patient.write("psclust.yaml", FILE.replace("{backoff: 0.1}", "{backoff: 0.1, max: 1}"))
    up = patient.start("up")
    for attempt in (1, 2):
        victim = patient.wait_for("worker:1", "running", attempt=attempt)
        line = f"here worker:1 attempt {attempt}\n"  # whole: unbuffered Python writes it in pieces
        wait_until(
            lambda attempt=attempt, line=line: line in patient.log("worker:1", attempt), what=line
        )  # type: ignore[misc]
        assert victim.pid is not None
        os.kill(victim.pid, signal.SIGKILL)
    assert up.wait() == 1
    assert "worker:1 was killed by SIGKILL" in up.output
    assert "here worker:1 attempt 2" in up.output


@pytest.mark.long
def test_killed_fork_servers_harm_no_task_and_are_replaced(patient: CommandBed) -> None:
    patient.write("psclust.yaml", FILE.replace("preload: false", "preload: true"))
    up = patient.start("up")
    worker = patient.wait_for("worker:1", "running")
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
    assert worker.pid is not None
    code, said = patient.run("restart", "worker:1")
    assert code == 0, said
    assert patient.wait_for("worker:0", "running").attempt == 1
    patient.write("finish", "")
    assert up.wait() == 0, up.output


def test_a_killed_supervisor_takes_everything_with_it_and_up_says_so(patient: CommandBed) -> None:
    up = patient.start("up")
    patient.wait_for("worker:1", "running")
    status = patient.status()
    assert status is not None
    os.kill(status.supervisor, signal.SIGKILL)
    assert up.wait() == 1
    assert "the supervisor was killed by SIGKILL" in up.output
    assert not patient.bound_ports(status)
    ended = patient.status()
    assert ended is not None
    assert all(
        task.since > before.since for task, before in zip(ended.tasks, status.tasks, strict=True)
    )


def test_a_guard_and_supervisor_killed_together_leave_no_task_and_ps_tells(
    patient: CommandBed,
) -> None:
    patient.run("up", "-d")
    patient.wait_for("worker:1", "running")
    status = patient.status()
    assert status is not None
    guard = psutil.Process(status.supervisor).parent()
    assert guard is not None
    for process in (guard, psutil.Process(status.supervisor)):
        process.send_signal(signal.SIGSTOP)
    for process in (guard, psutil.Process(status.supervisor)):
        process.kill()
    wait_until(lambda: not patient.processes(), what="the end of the tasks")
    # A process that ends lets go of its files, and so of the run's lock, a moment after its
    # environment is gone.
    wait_until(
        lambda: "the supervisor and its guard were killed" in patient.run_here("ps")[1],
        what="the word of ps",
    )


def test_a_killed_up_ends_the_run_it_held(patient: CommandBed) -> None:
    up = patient.start("up")
    patient.wait_for("worker:1", "running")
    up.process.kill()
    up.wait()
    wait_until(lambda: not patient.processes(), what="the end of the run")
    code, said = patient.run_here("ps")
    assert code == 0
    assert "the `psclust up` that held this run is gone" in said


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
    wait_until(lambda: "once more to stop now" in up.output, what="the first Ctrl-C")
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


def test_a_task_that_ignores_term_is_killed_after_the_grace(patient: CommandBed) -> None:
    patient.write(
        "patient.py", "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + PATIENT
    )
    patient.write("psclust.yaml", FILE.replace("{stop: 2}", "{stop: 0.3}"))
    up = patient.start("up", "-d")
    assert up.wait() == 0, up.output
    code, said = patient.run("down")
    assert code == 0, said
    assert "none is alive" in said


def test_what_a_task_left_behind_in_a_session_of_its_own_ends_with_the_run(
    patient: CommandBed,
) -> None:
    patient.write(
        "patient.py",
        "import subprocess\nsubprocess.Popen(['sleep', '600'], start_new_session=True)\n" + PATIENT,
    )
    up = patient.start("up")
    patient.wait_for("worker:1", "running")
    wait_until(
        lambda: sum("sleep" in words_of(process) for process in patient.processes()) == 2,
        what="two sleepers",
    )
    status = patient.status()
    assert status is not None
    os.kill(status.supervisor, signal.SIGKILL)
    assert up.wait() == 1
    assert not patient.processes()
