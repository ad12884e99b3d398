"""A run in an allocation of a real Slurm: psclust finds the nodes, reaches them by srun, and leaves
nothing there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from four_ways import in_all_four_ways
from on_slurm import PSCLUST, allocated, needs_root, wait_until_shown

from beds.command import CommandBed, typed
from beds.learning import DIGITS, is_learned
from beds.scripts import CLASSIC, TOLD_BY_TF_CONFIG
from beds.slurm import SlurmBed

pytestmark = [pytest.mark.process, needs_root]

_FOUND = (
    r"hosts: Slurm job \d+, 4 nodes \(n1, n2, n3, n4\), 8 slots; `-H local` uses this machine alone"
)


@pytest.mark.tensorflow
@in_all_four_ways()
def test_the_digits_are_learned_on_four_nodes(
    job: CommandBed, replication: str, update: str
) -> None:
    said = job.done(*typed(f"up --ps 2 --workers 4 --replication {replication} {update} {DIGITS}"))
    assert re.match(_FOUND, said), said
    assert is_learned(said), said
    status = job.status()
    assert {task.host for task in status.tasks} == {"n1", "n2", "n3", "n4"}
    # Encrypted, by psclust's own wire, too.
    assert {(task.address or "").rpartition(":")[0] for task in status.tasks} == {"127.0.0.1"}
    assert "is used, which takes more time" not in said


@pytest.mark.long
@pytest.mark.tensorflow
@pytest.mark.parametrize("script", [CLASSIC, TOLD_BY_TF_CONFIG], ids=["classic flags", "TF_CONFIG"])
def test_a_script_runs_unchanged(job: CommandBed, script: str) -> None:
    job.write("train.py", script)
    assert job.done("up", "--ps", "1", "--workers", "2", "train.py").count("trained to") == 2


def test_a_batch_script_starts_it_too_and_tasks_have_the_variables_of_the_script(
    slurm: SlurmBed, tmp_path: Path
) -> None:
    bed = allocated(slurm, tmp_path / "bed")
    bed.write(
        "task.py",
        "import os\nprint(os.environ['PSCLUST_TASK'], 'on', os.environ['SLURMD_NODENAME'], "
        "os.environ['LEVEL'])\n",
    )
    command = " ".join(
        [*PSCLUST, "up", "--ps", "0", "--workers", "3", "--no-preload", "--", "python", "task.py"]
    )
    bed.write("job.sh", f"#!/bin/sh\nexport LEVEL=7\n{command}\n")
    bed.command = ("sbatch", "--wait", "--quiet", "--nodes=3", "--output=said")
    assert bed.done("job.sh") == ""
    said = (bed.folder / "said").read_text()
    assert [f"worker:{index} on n{index + 1} 7" in said for index in range(3)] == [
        True,
        True,
        True,
    ], said


def test_without_an_allocation_it_is_refused(slurm: SlurmBed, bed: CommandBed) -> None:
    assert bed.fails_here(2, "up", "-H", "slurm", "train.py") == (
        "psclust: -H: slurm: this is no allocation; submit a job with `psclust up --slurm`, "
        "or call psclust in a script for sbatch, or in the shell of salloc.\n"
    )
    bed.environ |= slurm.environ
    bed.command = ("srun", "--quiet", "--nodes=2", "--ntasks=2", *PSCLUST)
    said = bed.fails(2, "up", "train.py")
    assert (
        "hosts: srun started this psclust as task 0 of 2, and each would start the cluster. "
        "Call psclust once, without srun" in said
    )


_SHOW = """import os
task, node = os.environ["PSCLUST_TASK"], os.environ["SLURMD_NODENAME"]
print(task, "on", node, "sees", os.environ.get("CUDA_VISIBLE_DEVICES") or "-")
"""


def test_ps_are_on_the_small_nodes_of_a_heterogeneous_job_and_each_worker_sees_its_own_gpu(
    slurm: SlurmBed, tmp_path: Path
) -> None:
    groups = typed("--nodes=2 --ntasks=2 : --nodes=1 --ntasks=2 --gpus-per-node=2")
    bed = allocated(slurm, tmp_path / "bed", *groups)
    bed.write("task.py", _SHOW + wait_until_shown(4))
    jobs = (
        "jobs: {ps: {count: 2, hosts: het-0, run: [python, task.py]}, worker: {count: "
        "2, hosts: het-1, gpus: 1}}"
    )
    bed.write(
        "psclust.yaml", f"hosts: slurm\n{jobs}\nprogram: task.py\npreload: false\nends_with: all\n"
    )
    said = bed.done("up")
    assert re.match(r"hosts: Slurm job \d+, 3 nodes \(het-0: n1, n2; het-1: n3\), 4 slots", said), (
        said
    )
    wanted = [
        "ps:0 on n1 sees -",
        "ps:1 on n2 sees -",
        "worker:0 on n3 sees 0",
        "worker:1 on n3 sees 1",
    ]
    assert [line for line in wanted if line not in said] == [], said


def test_doctor_checks_the_nodes_of_the_allocation(slurm: SlurmBed, tmp_path: Path) -> None:
    bed = allocated(slurm, tmp_path / "bed", "--nodes=2", "--gpus-per-node=1")
    said = bed.done("doctor")
    rows = {" ".join(line.split()) for line in said.splitlines()}
    assert any(
        re.fullmatch(r"all 2 log-in by srun; a Python answers within [\d.]+ s", row) for row in rows
    ), said
    assert f"all 2 folder {bed.folder} is shared" in rows
    assert any(
        row.startswith("all 2 gpus") and "tasks see 0 (CUDA_VISIBLE_DEVICES)" in row for row in rows
    ), said
    assert any(
        re.fullmatch(
            r"all 2 network reaches all others; [\d.]+ Mbit/s and [\d.]+ ms between \S+ and \S+",
            row,
        )
        for row in rows
    ), said
    assert any(row.startswith("all 2 tensorflow 2.") for row in rows), said


def test_exec_runs_a_command_on_every_node(job: CommandBed) -> None:
    said = job.done("exec", "--", "sh", "-c", "echo $SLURMD_NODENAME; exit $SLURM_NODEID")
    rows = [line.split()[:2] + line.split()[-1:] for line in said.splitlines()[1:]]
    assert rows == [[name, "0", name] for name in ("n1", "n2", "n3", "n4")], said
    # srun has remarks of its own, about CPU binding and exit codes.
    said = job.fails(1, "exec", "--", "echo why >&2; exit 3")
    assert [line.split()[:2] + line.split()[-1:] for line in said.splitlines()[1:]] == [
        [f"n{number}", "3", "why"] for number in range(1, 5)
    ]


def test_agents_are_reached_through_steps_if_that_is_wanted(
    slurm: SlurmBed, tmp_path: Path
) -> None:
    bed = allocated(slurm, tmp_path / "bed", "--nodes=2")
    bed.write("task.py", _SHOW)
    bed.write("psclust.yaml", "jobs: {worker: 2}\nprogram: task.py\npreload: false\ntunnel: true\n")
    assert "worker:1 on n2" in bed.done("up")


def test_a_detached_run_is_watched_ended_and_purged_from_the_shell_of_the_allocation(
    slurm: SlurmBed, tmp_path: Path
) -> None:
    bed = allocated(slurm, tmp_path / "bed", "--nodes=2", "--ntasks-per-node=2")
    bed.write("task.py", "import time\nprint('here', flush=True)\ntime.sleep(1000)\n")
    bed.write(
        "psclust.yaml", "jobs: {worker: 2}\nprogram: task.py\npreload: false\nrole_by: none\n"
    )
    verbs = ("up -d", "ps", "exec -- true", "down --purge")
    script = (
        " && ".join(" ".join([*PSCLUST, verb]) for verb in verbs)
        # Slurm lists a step for a moment after its end.
        + "; steps='squeue --steps --noheader --jobs='$SLURM_JOB_ID"
        + "; for i in $(seq 300); do $steps | grep -q . || break; sleep 0.1; done; $steps"
    )
    bed.command = ("salloc", "--quiet", "--nodes=2", "--ntasks-per-node=2", "sh", "-c")
    said = bed.done(script)
    assert "bed is up: psclust ps, psclust logs -f, psclust down" in said
    assert len(re.findall(r"worker:[01] +running .* n\d ", said)) >= 2, said
    assert said.rstrip().endswith("nothing of bed is left on other hosts"), said
