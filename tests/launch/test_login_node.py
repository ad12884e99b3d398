"""Jobs submitted from a login node: another machine than the nodes, with its own network and name,
which shares their files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from on_slurm import needs_root, wait_for_nothing_left

from beds.command import CommandBed
from beds.slurm import SlurmBed
from psclust.rundir.batch_job import BatchJob
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, needs_root]

# Works until a file appears.
_WORKS = """import os, sys, time
task, node = os.environ["PSCLUST_TASK"], os.environ["SLURMD_NODENAME"]
print(task, "works on", node, *sys.argv[1:], flush=True)
while not os.path.exists("stop"):
    time.sleep(0.05)
print("stops", flush=True)
"""
_FILE = (
    "jobs: {worker: 2}\nprogram: work.py\nrole_by: none\npreload: false\n"
    "slurm: {nodes: 2, time: 1:00:00}\nports: 21000-21099\n"
)
_ALL_NODES = ("--nodes=4", "--exclusive", "--output=/dev/null")


@pytest.fixture
def login(slurm: SlurmBed, tmp_path: Path) -> Iterator[CommandBed]:
    """Calls psclust on the login node; afterwards no job may be there, and nothing of one may live
    on any node."""
    bed = CommandBed(tmp_path / "bed", {**slurm.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")})
    bed.folder.mkdir()
    bed.write("work.py", _WORKS)
    bed.write("psclust.yaml", _FILE)
    yield bed
    wait_for_nothing_left(bed, slurm)


def submit(bed: CommandBed, *arguments: str) -> str:
    """The job's id."""
    said = bed.done_here("up", "--slurm", *arguments)
    job = re.search(r"queued as Slurm job (\d+)", said)
    assert job, said
    return job[1]


def occupy(slurm: SlurmBed) -> str:
    """Take all nodes; returns the job's id."""
    job = slurm.run("sbatch", "--parsable", *_ALL_NODES, "--wrap", "sleep 1000").strip()
    wait_until(lambda: f"{job} RUNNING" in slurm.jobs(), what="a job on all nodes")
    return job


def test_the_whole_life_of_a_job(login: CommandBed, slurm: SlurmBed) -> None:
    first = occupy(slurm)
    job = submit(login)
    logs = login.start("logs", "-f")
    logs.until(f"waiting for Slurm job {job} (PENDING: ")
    said = login.done_here("ps")
    assert re.search(rf"^bed  \S+  queued\nwaiting for Slurm job {job} \(PENDING: \w+\)\n", said), (
        said
    )
    assert re.search(r"^worker:1 +queued ", said, re.MULTILINE), said
    assert re.search(
        rf"^bed +queued .* {login.folder}/psclust.yaml$",
        login.run_here("clusters")[1],
        re.MULTILINE,
    )
    assert f"bed is queued as Slurm job {job}: " in login.fails_here(2, "up", "--slurm")

    slurm.run("scancel", first)
    logs.until("works on", 2)
    waits = [line for line in logs.output.splitlines() if f"waiting for Slurm job {job} " in line]
    assert len(waits) == len(set(waits)), logs.output  # Slurm may name several reasons
    login.wait_for("worker:1", "running")
    for verb in ("ps", "clusters"):
        assert re.search(r"^bed  .*\blive\b", login.run_here(verb)[1], re.MULTILINE)
    ports = {
        int(address.rpartition(":")[2])
        for address in json.loads(login.run_folder().access.read_text())["addresses"]
    }
    assert ports < set(range(21000, 21100))  # as a firewall may admit
    for verb in (["up", "--slurm"], ["up", "--hosts", "local"]):
        assert f"bed runs as Slurm job {job}: " in login.fails_here(2, *verb)
    attached = login.start("attach")
    attached.until("works on", 2)
    login.write("stop", "")
    assert attached.wait() == 0
    assert logs.wait() == 0
    assert logs.output.count("stops") == 2
    wait_for_nothing_left(login, slurm)
    assert re.search(r"^bed  \S+  ended well$", login.run_here("ps")[1], re.MULTILINE)
    assert login.run_here("logs")[1].count("stops") == 2
    folder = login.run_folder()
    assert "bed ended well" in folder.job_output.read_text()
    assert "#SBATCH" in folder.job_script.read_text()


def test_down_ends_a_running_job_over_the_network_and_a_queued_one_by_scancel(
    login: CommandBed, slurm: SlurmBed
) -> None:
    submit(login)
    login.wait_for("worker:1", "running")
    folder = login.run_folder()
    assert folder.access.stat().st_mode & 0o077 == 0
    folder.socket.unlink()  # here, files of all machines are on one
    login.done_here("restart", "worker:1")
    said = login.done_here("down")
    assert said == f"bed is down; 2 tasks, none is alive. Logs: {folder.logs}\n"
    wait_for_nothing_left(login, slurm)
    assert "stopped (exit code 143): psclust down" in login.run_here("ps")[1]

    first = occupy(slurm)
    job = submit(login)
    assert login.done_here("down") == (
        f"bed is down; Slurm job {job} was cancelled before it started\n"
    )
    assert (
        f"stopped (exit code 143): psclust down cancelled Slurm job {job}"
        in login.run_here("ps")[1]
    )
    slurm.run("scancel", first)


@pytest.mark.long
def test_a_job_that_is_gone_ends_its_run(login: CommandBed, slurm: SlurmBed) -> None:
    first = occupy(slurm)
    job = submit(login)
    logs = login.start("logs", "-f")
    logs.until("waiting for")
    slurm.run("scancel", job)
    assert logs.wait() == 0
    text = f"Slurm job {job} is gone (CANCELLED), before psclust started"
    assert text in logs.output
    assert text in login.run_here("ps")[1]
    slurm.run("scancel", first)
    # What a job leaves that Slurm kills at once, or whose node fails.
    job = submit(login)
    login.wait_for("worker:1", "running")
    slurm.run("scancel", "--signal=KILL", job)
    wait_for_nothing_left(login, slurm)
    assert re.search(r"^bed  \S+  (failed|stopped) \(exit code \d+\): ", login.run_here("ps")[1])
    submit(login)
    login.done_here("down")


@pytest.mark.long
def test_an_array_is_a_run_for_each_of_its_tasks(login: CommandBed, slurm: SlurmBed) -> None:
    keys = (
        "jobs: {worker: 1}\nprogram: work.py\nargs: ['rate {array_task}']\n"
        "role_by: none\npreload: false\n"
    )
    login.write(
        "sweep.yaml", f"name: sweep-{{array_task}}\n{keys}slurm: {{sbatch: [--array=1-3:2]}}\n"
    )
    login.write("stop", "")
    login.environ["PSCLUST_UP_WORKERS"] = "3"  # the job does not ask it again
    job = submit(login, "-f", "sweep.yaml", "--workers", "1")
    wait_for_nothing_left(login, slurm)
    for task in ("1", "3"):
        said = login.run_here("logs", f"sweep-{task}")[1]
        assert f"rate {task}\n" in said
        assert "worker:1" not in said
        assert "ended well" in login.run_here("ps", f"sweep-{task}")[1]
        record = BatchJob.read(login.run_folder(f"sweep-{task}").job)
        assert record is not None
        assert record.id == f"{job}_{task}"


@pytest.fixture
def closed_account(slurm: SlurmBed) -> Iterator[str]:
    """An account that Slurm refuses."""
    config = slurm.folder / "slurm.conf"
    before = config.read_text()
    rule = 'if job.account == "closed" then return 2045 end return slurm.SUCCESS'
    functions = (
        f"function slurm_job_submit(job, parts, uid) {rule} end\n"
        "function slurm_job_modify() return slurm.SUCCESS end\n"
    )
    (slurm.folder / "job_submit.lua").write_text(f"{functions}return slurm.SUCCESS\n")
    config.write_text(f"JobSubmitPlugins=lua\n{before}")
    slurm.run("scontrol", "reconfigure")
    yield "closed"
    config.write_text(before)
    slurm.run("scontrol", "reconfigure")


def test_what_slurm_would_refuse_is_refused_and_nothing_is_submitted(
    login: CommandBed, slurm: SlurmBed, closed_account: str
) -> None:
    for keys, sentence in (
        (
            "partition: nope",
            (
                r"Slurm refuses this job: invalid partition specified: nope\. "
                r"Name another one as slurm.partition; `sinfo`"
            ),
        ),
        (
            "nodes: 9",
            (
                r"Slurm refuses this job: "
                r"Requested node configuration is not available\. Lower slurm.nodes"
            ),
        ),
        (
            f"account: {closed_account}",
            (
                r"Slurm refuses this job: Invalid account .*\. "
                r"Name one of your accounts as slurm.account"
            ),
        ),
        (
            "time: soon",
            r"Slurm refuses this job: Invalid --time specification\. Write slurm.time as 4:00:00",
        ),
        (
            "sbatch: [--nosuch]",
            (
                r"Slurm refuses this job: unrecognized option '--nosuch'\. "
                r"Change slurm in the cluster file\."
            ),
        ),
        (
            "sbatch: [--array=0-3]",
            (
                r"name: bed: the 4 runs of an array need names of their own; write name: "
                r"bed-\{array_task\}\."
            ),
        ),
    ):
        login.write("psclust.yaml", _FILE.replace("nodes: 2, time: 1:00:00", keys))
        said = login.fails_here(2, "up", "--slurm")
        assert re.search(sentence, said), said
    assert slurm.jobs() == []
    assert not login.state.exists()


def test_what_cannot_start_is_refused_before_the_queue(login: CommandBed, slurm: SlurmBed) -> None:
    for arguments, sentence in (
        (["wrok.py"], r"wrok.py: No such file or directory in"),
        (["--", "./missing"], r"./missing: there is no such command"),
        (
            ["-H", "a,b", "work.py"],
            (
                r"-H: Slurm chooses the nodes of a job; remove hosts and hostfile, "
                r"or write hosts: slurm\."
            ),
        ),
        (
            ["--name", "x-{array_task}", "work.py"],
            r"'x-\{array_task\}' has \{array_task\}, which only a task of an array job knows",
        ),
    ):
        said = login.fails_here(2, "up", "--slurm", "-f", "psclust.yaml", *arguments)
        assert re.search(sentence, said), said
    assert slurm.jobs() == []
    assert not login.state.exists()


def test_plan_shows_the_script_and_what_slurm_says_of_it(
    login: CommandBed, slurm: SlurmBed
) -> None:
    said = login.done_here("plan", "--slurm")
    assert "#SBATCH --nodes=2 --ntasks-per-node=1\n" in said
    assert re.search(r"^sbatch --test-only: Job \d+ to start at ", said, re.MULTILINE), said
    assert slurm.jobs() == []
    assert not login.state.exists()


@pytest.mark.long
def test_between_two_attempts_the_run_is_queued(login: CommandBed, slurm: SlurmBed) -> None:
    login.write(
        "work.py",
        "import signal, sys\nsignal.signal(signal.SIGUSR1, lambda *_: "
        "sys.exit(0))\nsignal.pause()\n",
    )
    login.write("psclust.yaml", _FILE.replace("nodes: 2", "nodes: 2, requeue: 1"))
    job = submit(login)
    login.wait_for("worker:1", "running")
    before = login.run_folder()
    slurm.run("scancel", "--batch", "--signal=USR1", job)
    wait_until(
        lambda: "  queued\n" in login.run_here("ps")[1], what="the next attempt in the queue"
    )
    assert login.run_here("up", "--slurm")[0] == 2
    wait_until(lambda: slurm.jobs() == [f"{job} PENDING"], what="Slurm's own word for it")
    login.wait_for("worker:1", "running")
    assert login.run_folder() != before
    assert str(login.folder / "psclust.yaml") in login.run_here("clusters")[1]
    login.done_here("down")


@pytest.mark.long
def test_a_supervisor_that_cannot_be_reached_is_ended_with_its_job(
    login: CommandBed, slurm: SlurmBed
) -> None:
    job = submit(login)
    login.wait_for("worker:1", "running")
    login.run_folder().access.unlink()
    said = login.done_here("down")
    assert f"the supervisor of bed does not answer; its Slurm job {job} was cancelled" in said
    wait_for_nothing_left(login, slurm)
