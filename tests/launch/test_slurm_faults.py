"""What is killed or cut off in a Slurm allocation, and what becomes of the run: nothing of it may
live on any node afterwards."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from on_slurm import PSCLUST, allocated, needs_root, wait_for_nothing_left

from beds.command import CommandBed, Running
from beds.growing import growing
from beds.processes import words_of
from beds.slurm import SlurmBed, slurm_bed
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, needs_root]

# Of each task: a child that leaves the task's session and tree.
_STRAY = """import os, subprocess, sys, time
print("at work on", os.environ["SLURMD_NODENAME"], flush=True)
subprocess.Popen(["setsid", "--fork", "sleep", "1000"])
end = time.monotonic() + float(os.environ["LASTS"])
while time.monotonic() < end:
    time.sleep(0.1)
"""


def start(bed: CommandBed, *, workers: int, lasts_s: float) -> Running:
    bed.write("train.py", _STRAY)
    keys = (
        f"jobs: {{worker: {workers}}}\nrole_by: none\npreload: false\n"
        f"deadlines: {{lease: 3s, stop: 1s}}\nenv: {{LASTS: {lasts_s}}}\n"
    )
    bed.write("psclust.yaml", f"hosts: slurm\nprogram: train.py\n{keys}")
    running = bed.start("up")
    running.until("at work on", workers)
    return running


def on_node(bed: CommandBed, *words: str) -> list[psutil.Process]:
    """Processes of the bed with all these words in their command lines."""
    found = []
    for process in bed.processes():
        with suppress(psutil.Error):  # it ends just now
            if all(word in " ".join(words_of(process)) for word in words):
                found.append(process)
    return found


def sruns(bed: CommandBed, node: str) -> list[psutil.Process]:
    """srun is two processes, of which the second ends the step if the first dies."""
    return [process for process in on_node(bed, f"--nodelist={node}") if process.name() == "srun"]


def launcher(running: Running) -> psutil.Process:
    """`psclust up`, below salloc."""
    return next(
        child for child in psutil.Process(running.process.pid).children() if "up" in words_of(child)
    )


def interrupt(running: Running) -> None:
    launcher(running).send_signal(signal.SIGINT)
    assert running.wait() == 130, running.output


@pytest.fixture
def spare(slurm: SlurmBed, tmp_path: Path) -> Iterator[CommandBed]:
    """Three nodes with two slots each."""
    bed = allocated(slurm, tmp_path / "bed", "--nodes=3", "--ntasks-per-node=2", "--no-kill")
    yield bed
    wait_for_nothing_left(bed, slurm)


def kill_first(processes: list[psutil.Process]) -> None:
    parents = {process.pid for process in processes}
    next(process for process in processes if process.ppid() not in parents).kill()


def test_when_srun_is_killed_its_step_ends_and_the_tasks_move(spare: CommandBed) -> None:
    running = start(spare, workers=3, lasts_s=1000)
    kill_first(sruns(spare, "n1"))
    running.until("worker:0: attempt 2 starts")
    assert "host n1 is lost, with worker:0" in running.output
    task = spare.wait_for("worker:0", "running", attempt=2)
    assert task.host in ("n2", "n3")
    interrupt(running)


def test_without_all_of_srun_the_run_goes_on_and_ends_as_ever(spare: CommandBed) -> None:
    running = start(spare, workers=3, lasts_s=8)
    os.killpg(os.getpgid(sruns(spare, "n1")[0].pid), signal.SIGKILL)
    wait_until(lambda: sruns(spare, "n1") == [], what="the end of srun")
    assert running.wait() == 0, running.output
    assert "attempt 2" not in running.output


@pytest.mark.long
@pytest.mark.tensorflow
def test_workers_join_on_spare_slots_and_leave_a_drained_node(
    spare: CommandBed, slurm: SlurmBed
) -> None:
    run = growing(spare, "between-graph --async", ps=1, up=(), hosts="slurm")
    running = spare.start("up")
    spare.command = PSCLUST  # for what follows, from outside of the allocation
    spare.wait_for("worker:1", "running")
    run.reach(10)
    assert "worker:2 joins; nobody else stops" in run.scale(3)
    run.reach(30, "worker:2")
    (node,) = {task.host for task in spare.status().tasks if task.task == "worker:1"}
    slurm.run("scontrol", "update", f"nodename={node}", "state=drain", "reason=repair")
    try:
        running.until(f"host {node} is to be left, with ")
        moved = spare.wait_for("worker:1", "running", attempt=2)
        assert moved.host not in (node, None)
        run.hurry()
        assert running.wait() == 0, running.output
    finally:
        slurm.run("scontrol", "update", f"nodename={node}", "state=resume")
    assert set(run.used()) == {2}


@pytest.mark.long
@pytest.mark.tensorflow
def test_workers_leave_a_drained_node_for_none_and_come_back_to_it(
    spare: CommandBed, slurm: SlurmBed
) -> None:
    run = growing(
        spare,
        "between-graph --async",
        jobs={"ps": 1, "worker": {"min": 2, "max": 5}},  # on all six slots
        examples=20_000,
        up=(),
        hosts="slurm",
    )
    running = spare.start("up")
    spare.command = PSCLUST  # for what follows, from outside of the allocation
    run.reach(10, "worker:4")
    needed = {spare.wait_for(task, "running").host for task in ("worker:0", "ps:0")}
    node = next(name for name in ("n1", "n2", "n3") if name not in needed)
    there = [task.task for task in spare.status().tasks if task.host == node]
    slurm.run("scontrol", "update", f"nodename={node}", "state=drain", "reason=repair")
    try:
        for task in there:
            spare.wait_for(task, "dropped")
        run.reach(run.step("worker:0") + 20, "worker:0")
    finally:
        slurm.run("scontrol", "update", f"nodename={node}", "state=resume")
    running.until(f"{node} is back: ")
    for task in there:
        assert spare.wait_for(task, "running", attempt=2).host == node
    assert run.attempts()["worker:0"] == run.attempts()["ps:0"] == 1
    run.hurry()
    assert running.wait() == 0, running.output
    assert set(run.used()) == {2}


@pytest.mark.long
def test_a_node_that_is_cut_off_is_replaced(spare: CommandBed, slurm: SlurmBed) -> None:
    running = start(spare, workers=3, lasts_s=1000)
    slurm[0].cut()
    try:
        running.until("worker:0: attempt 2 starts")
        # Slurm leaves the tasks of a lost node alone; the agent's lease has ended them.
        wait_until(
            lambda: (
                not [
                    each
                    for each in on_node(spare, "train.py")
                    if each.environ().get("SLURMD_NODENAME") == "n1"
                ]
            )
        )
        wait_until(lambda: "down*" in slurm.node_states(), what="Slurm's own verdict")
        assert spare.wait_for("worker:0", "running", attempt=2).host in ("n2", "n3")
    finally:
        slurm[0].heal()
    interrupt(running)
    slurm.wait_until_idle()


@pytest.mark.long
@pytest.mark.parametrize("tracking", ["linuxproc", "cgroup"])
def test_when_the_allocation_ends_nothing_is_left_however_slurm_tracks_processes(
    tmp_path: Path, tracking: str
) -> None:
    with slurm_bed(tmp_path / "slurm", 2, tracking=tracking) as slurm:  # type: ignore[arg-type]
        bed = allocated(slurm, tmp_path / "bed", "--nodes=2")
        running = start(bed, workers=2, lasts_s=1000)
        number = slurm.jobs()[0].split()[0]
        assert on_node(bed, "sleep", "1000")
        slurm.run("scancel", "--signal=KILL", number)
        wait_until(
            lambda: not on_node(bed, "sleep", "1000"),
            what="the end of the tasks and their children",
        )
        assert running.wait() != 0, running.output
        wait_for_nothing_left(bed, slurm)


@pytest.mark.long
def test_the_run_does_not_need_slurmd(tmp_path: Path) -> None:
    with slurm_bed(tmp_path / "slurm", 2) as slurm:
        bed = allocated(slurm, tmp_path / "bed", "--nodes=2")
        running = start(bed, workers=2, lasts_s=5)
        slurm[1].kill_slurmd()
        assert running.wait() == 0, running.output
        wait_until(lambda: not bed.processes(), what="the end of everything on the nodes")


def test_a_launcher_that_is_killed_leaves_nothing_on_the_nodes(spare: CommandBed) -> None:
    running = start(spare, workers=3, lasts_s=1000)
    launcher(running).kill()
    running.wait()


@pytest.mark.long
def test_a_node_that_is_gone_before_the_start_is_named(spare: CommandBed, slurm: SlurmBed) -> None:
    spare.write("train.py", "pass\n")
    slurm[1].cut()
    try:
        spare.command = ("salloc", "--quiet", "--no-kill", "--nodes=3", "sh", "-c")
        verb = " ".join([*PSCLUST, "up", "--no-preload", "--ps", "0", "--workers", "2", "train.py"])
        code, said = spare.run(
            f"{verb}; echo code $?; until sinfo -N -h -o %T | grep -q 'down'; "
            f"do sleep 0.5; done; {verb}"
        )
    finally:
        slurm[1].heal()
    assert code == 3, said
    assert "n2: srun could not start a step there: Task launch for StepId=" in said
    assert "code 3" in said
    assert "n2: Slurm says that the node is DOWN" in said
    slurm.wait_until_idle()
