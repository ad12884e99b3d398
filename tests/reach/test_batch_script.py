"""The script for sbatch, to the letter, and what psclust reads from squeue."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from psclust.errors import ClusterFileError, UsageError
from psclust.plan.cluster_layout import lay_out
from psclust.reach.batch_jobs import JobState
from psclust.reach.slurm import sbatch
from psclust.reach.slurm.batch_script import array_tasks, nodes_of, render_script
from psclust.reach.slurm.sbatch import check_file
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.host_keys import Slurm
from psclust.spec.key_types import ARRAY_TASK
from psclust.spec.load import load

COMMAND = ["/usr/bin/python3", "-m", "psclust", "up"]


def script_of(file: ClusterFile, command: Sequence[str], folder: Path, output: Path) -> str:
    return render_script(file, lay_out(file).hosts, command, folder, output)


def file_of(folder: Path, text: str) -> ClusterFile:
    path = folder / "cluster.yaml"
    path.write_text(text)
    return load(
        path,
        default_name="digits",
        rules=[check_file],
        find_hosts=nodes_of,
        array_task=ARRAY_TASK,
    )


SCRIPTS = {
    "jobs: {ps: 1, worker: 2}": """#!/bin/bash
#SBATCH --job-name=digits --chdir=/home/me --output=/runs/job.out
#SBATCH --nodes=1 --ntasks-per-node=3
#SBATCH --no-kill --requeue --open-mode=append --signal=B:USR1@120
exec /usr/bin/python3 -m psclust up
""",
    """jobs: {ps: 2, worker: {count: 4, gpus: 1}}
deadlines: {finish: 10m}
slurm:
  {partition: gpu, account: team, time: 4:00:00, nodes: 4, sbatch: [--mem=0, "--comment=a b"],
   setup: [module load cuda, "ulimit -n 4096"]}
""": """#!/bin/bash
#SBATCH --job-name=digits --chdir=/home/me --output=/runs/job.out
#SBATCH --partition=gpu --account=team --time=4:00:00
#SBATCH --nodes=4 --ntasks-per-node=2 --gpus-per-node=1
#SBATCH --no-kill --requeue --open-mode=append --signal=B:USR1@660
#SBATCH --mem=0 '--comment=a b'
module load cuda
ulimit -n 4096
exec /usr/bin/python3 -m psclust up
""",
    """hosts: slurm
jobs: {ps: {count: 2, hosts: het-0}, worker: {count: 4, hosts: het-1, gpus: 1}}
slurm: {partition: [cpu, gpu], nodes: [1, 2]}
""": """#!/bin/bash
#SBATCH --job-name=digits --chdir=/home/me --output=/runs/job.out
#SBATCH --partition=cpu
#SBATCH --nodes=1 --ntasks-per-node=2
#SBATCH --no-kill --requeue --open-mode=append --signal=B:USR1@120
#SBATCH hetjob
#SBATCH --partition=gpu
#SBATCH --nodes=2 --ntasks-per-node=2 --gpus-per-node=2
#SBATCH --no-kill --requeue --open-mode=append --signal=B:USR1@120
exec /usr/bin/python3 -m psclust up
""",
    (
        "jobs: {ps: {count: 2, hosts: het-0}, worker: {count: 2, hosts: het-1, gpus: 1}}\n"
        "slurm: {account: team}"
    ): """#!/bin/bash
#SBATCH --job-name=digits --chdir=/home/me --output=/runs/job.out
#SBATCH --account=team
#SBATCH --nodes=1 --ntasks-per-node=2
#SBATCH --no-kill --requeue --open-mode=append --signal=B:USR1@120
#SBATCH hetjob
#SBATCH --account=team
#SBATCH --nodes=1 --ntasks-per-node=2 --gpus-per-node=2
#SBATCH --no-kill --requeue --open-mode=append --signal=B:USR1@120
exec /usr/bin/python3 -m psclust up
""",
    """name: 'sweep-{array_task}'
jobs: {worker: 1}
slurm: {gpus: 2, sbatch: [--array=0-3]}
""": """#!/bin/bash
#SBATCH --job-name=sweep --chdir=/home/me --output=/runs/job.out
#SBATCH --nodes=1 --ntasks-per-node=1 --gpus-per-node=2
#SBATCH --no-kill --requeue --open-mode=append --signal=B:USR1@120
#SBATCH --array=0-3
exec /usr/bin/python3 -m psclust up
""",
}


@pytest.mark.parametrize(
    "text", SCRIPTS, ids=["plain", "everything", "heterogeneous", "groups that jobs name", "array"]
)
def test_the_script_is_as_it_was(text: str, tmp_path: Path) -> None:
    assert (
        script_of(file_of(tmp_path, text), COMMAND, Path("/home/me"), Path("/runs/job.out"))
        == SCRIPTS[text]
    )


def test_paths_reach_sbatch_and_the_shell_unchanged(tmp_path: Path) -> None:
    file = file_of(tmp_path, "jobs: {worker: 1}")
    script = script_of(
        file,
        ["/a b/python", "-f", "/runs/x-{array_task}/it's"],
        Path("/my home"),
        Path("/50%/x-{array_task}/job.out"),
    )
    assert "--chdir='/my home' --output=/50%%/x-%a/job.out\n" in script
    assert script.endswith("""exec '/a b/python' -f /runs/x-"$SLURM_ARRAY_TASK_ID"'/it'"'"'s'\n""")


def test_groups_need_a_value_each(tmp_path: Path) -> None:
    with pytest.raises(
        ClusterFileError,
        match=r"slurm\.nodes: found 1 value where others have 2; write one for each group",
    ):
        file_of(tmp_path, "jobs: {worker: 1}\nslurm: {partition: [a, b], nodes: [1]}")


@pytest.mark.parametrize(
    ("options", "tasks"),
    [
        ([], []),
        (["--array=0-3"], ["0", "1", "2", "3"]),
        (["-a", "1,5-9:2%2"], ["1", "5", "7", "9"]),
        (["-a7"], ["7"]),
        (["--account=x", "--array", "2,1"], ["1", "2"]),
    ],
)
def test_the_tasks_of_an_array_are_known_before_it_is_submitted(
    options: Sequence[str], tasks: Sequence[str]
) -> None:
    assert array_tasks(Slurm(sbatch=list(options))) == tasks


@pytest.mark.parametrize("text", ["x", "3-", "0-99999999"])
def test_no_array_of_that_kind(text: str) -> None:
    with pytest.raises(UsageError, match=f"--array={text}: .*; write"):
        array_tasks(Slurm(sbatch=[f"--array={text}"]))


def _old(number: int, state: str, reason: str = "None", **array: object) -> dict[str, object]:
    """As Slurm 22.05 prints a job."""
    return {
        "job_id": number,
        "job_state": state,
        "state_reason": reason,
        "array_job_id": 0,
        "array_task_id": None,
        **array,
    }


def _new(
    number: int,
    *states: str,
    reason: str = "None",
    array: int = 0,
    task: int | None = None,
    waiting: str = "",
) -> dict[str, object]:
    """As Slurm 24.11 prints a job."""
    return {
        "job_id": number,
        "job_state": list(states),
        "state_reason": reason,
        "array_job_id": {"set": True, "infinite": False, "number": array},
        "array_task_id": {"set": task is not None, "infinite": False, "number": task or 0},
        "array_task_string": waiting,
    }


@pytest.mark.parametrize(
    "jobs",
    [
        [
            _old(1, "PENDING", "Resources"),
            _old(2, "COMPLETING"),
            _old(3, "CANCELLED"),
            _old(4, "PENDING", "Priority", array_job_id=4, array_task_string="2-3%1"),
            _old(5, "RUNNING", array_job_id=4, array_task_id=0),
        ],
        [
            _new(1, "PENDING", reason="Resources"),
            _new(2, "CANCELLED", "COMPLETING"),
            _new(3, "CANCELLED"),
            _new(4, "PENDING", reason="Priority", array=4, waiting="2-3%1"),
            _new(5, "RUNNING", array=4, task=0),
        ],
    ],
    ids=["22.05", "24.11"],
)
def test_states_of_jobs_are_read_from_any_version_of_squeue(
    jobs: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jobs.json").write_text(json.dumps({"jobs": jobs}))
    (tmp_path / "squeue").write_text(f"#!/bin/sh\ncat {tmp_path}/jobs.json\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    found = sbatch.states(["1", "2", "3", "4_0", "4_3", "4_5", "9"])
    assert found["1"] == JobState("PENDING", "Resources", waiting=True)
    assert [job for job, state in found.items() if state.over] == ["3", "4_5", "9"]
    assert found["4_0"] == JobState("RUNNING")
    assert found["4_3"] == JobState("PENDING", "Priority", waiting=True)
    assert str(found["9"]) == "unknown to squeue"
