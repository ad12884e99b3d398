"""sbatch, squeue and scancel: see `psclust.reach.batch_jobs.BatchSystem`."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from psclust.errors import UsageError
from psclust.reach.batch_jobs import JobState
from psclust.reach.slurm.allocation import job_record, node_records
from psclust.reach.slurm.slurm_command import call
from psclust.spec.problems import Problem

if TYPE_CHECKING:
    from pathlib import Path

    from psclust.spec.cluster import Host, Task
    from psclust.spec.cluster_file import ClusterFile, ClusterText
    from psclust.spec.found_hosts import FoundHosts

_PREEMPTION_S = 3600.0  # the longest grace that is waited for
_POLL_S = 1.0
_OVER = {
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "REVOKED",
    "TIMEOUT",
}
_GONE = JobState("unknown to squeue", over=True)


HOSTS = "slurm"


def check_file(file: ClusterFile) -> Iterator[Problem]:
    if file.found is None:
        yield Problem(
            ("hosts",),
            "Slurm chooses the nodes of a job; remove hosts and hostfile, or write hosts: slurm.",
            (("hostfile",),),
        )


def hosts_of(file: ClusterText) -> FoundHosts:
    from psclust.reach.slurm import batch_script

    return batch_script.nodes_of(file)


def groups_of(hosts: Sequence[str]) -> Sequence[str]:
    """het-0 stands for all nodes of a group, which are het-0.1, het-0.2, ..."""
    return list(dict.fromkeys(host.partition(".")[0] for host in hosts))


def brings_commands(file: ClusterFile) -> bool:
    return bool(file.slurm.setup)


def array_tasks(file: ClusterFile) -> Sequence[str]:
    from psclust.reach.slurm import batch_script

    return batch_script.array_tasks(file.slurm)


def script(
    file: ClusterFile,
    hosts: Mapping[Task, Host],
    command: Sequence[str],
    folder: Path,
    output: Path,
) -> str:
    from psclust.reach.slurm import batch_script

    return batch_script.render_script(file, hosts, command, folder, output)


def check(script: str) -> str:
    answer = _call(["sbatch", "--test-only"], script).strip()
    return answer.removeprefix("sbatch: ")


def submit(script: str) -> str:
    return _call(["sbatch", "--parsable"], script).strip().partition(";")[0]


def task_id(job: str, array_task: str) -> str:
    return f"{job}_{array_task}"


def named(job: str) -> str:
    return f"Slurm job {job}"


def array_task(environ: Mapping[str, str]) -> str | None:
    return environ.get("SLURM_ARRAY_TASK_ID")


def restarts(environ: Mapping[str, str]) -> int:
    return int(environ.get("SLURM_RESTART_COUNT") or 0)


def own_job(environ: Mapping[str, str]) -> str | None:
    if "SLURM_ARRAY_JOB_ID" in environ and "SLURM_ARRAY_TASK_ID" in environ:
        return task_id(environ["SLURM_ARRAY_JOB_ID"], environ["SLURM_ARRAY_TASK_ID"])
    return environ.get("SLURM_JOB_ID")


def wanted_back(hosts: Sequence[str]) -> dict[str, str]:
    """Nodes that are being drained: Slurm ends nothing there, and starts nothing more."""
    records = node_records(hosts, os.environ)
    drained = [name for name, record in records.items() if "DRAIN" in record.get("State", "")]
    return {name: "Slurm drains the node" for name in drained}


def states(jobs: Sequence[str]) -> dict[str, JobState]:
    """Some versions of squeue print all jobs with --json, whatever else is asked for."""
    text = _call(["squeue", "--me", "--json"])
    try:
        found = list(json.loads(text)["jobs"])
    except (ValueError, KeyError, TypeError):
        raise UsageError(
            "`squeue --json` printed no list of jobs; psclust needs Slurm 21.08 or later."
        ) from None
    return {
        job: next((_state(record) for record in found if _is(record, job)), _GONE) for job in jobs
    }


def cancel(job: str) -> None:
    _call(["scancel", job])


def _is(record: Mapping[str, Any], job: str) -> bool:
    array, _, task = job.partition("_")
    if not task:
        return bool(str(record["job_id"]) == job)
    if str(_number(record.get("array_job_id"))) != array:
        return False
    # Tasks of an array that wait share one record.
    waiting = str(record.get("array_task_string") or "").partition("%")[0]
    return str(_number(record.get("array_task_id"))) == task or task in _expanded(waiting)


def _expanded(text: str) -> Iterable[str]:
    for match in re.finditer(r"(\d+)(?:-(\d+)(?::(\d+))?)?", text):
        yield from map(str, range(int(match[1]), int(match[2] or match[1]) + 1, int(match[3] or 1)))


def _number(value: Any) -> Any:
    """Newer versions write {"set": true, "number": 3}."""
    if isinstance(value, dict):
        return value.get("number") if value.get("set") else None
    return value


def _state(record: Mapping[str, Any]) -> JobState:
    given = record["job_state"]
    words = given if isinstance(given, list) else [given]
    reason = str(record.get("state_reason") or "None")
    waiting = "PENDING" in words
    over = "COMPLETING" not in words and bool(_OVER & set(words))
    return JobState(
        "+".join(words), reason if waiting and reason != "None" else None, waiting, over
    )


def _call(command: Sequence[str], stdin: str | None = None) -> str:
    """See `slurm_command.call`. Without the variables that sbatch, and `up` in the job, would take
    options from: script and cluster file have them all."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SBATCH_", "PSCLUST_UP_"))
    }
    # squeue shortens no list of an array's tasks.
    return call(command, kept | {"SLURM_BITSTR_LEN": "0"}, stdin)


def start_again(
    file: ClusterFile,
    environ: Mapping[str, str],
    say: Callable[[str], None],
    before: Callable[[], None],
) -> None:
    """Requeue the job of this process, at most `slurm.requeue` times in all; Slurm then ends this
    process. Of a job that is being pre-empted, leave the rest to Slurm: it would not requeue a job
    that ends by itself."""
    allowed = file.slurm.requeue
    job, before_this = environ["SLURM_JOB_ID"], restarts(environ)
    try:
        record = job_record(job, environ)
        if record.get("JobState") != "RUNNING" and record.get("Reason") != "TimeLimit":
            say(f"Slurm has ended job {job}; it is not requeued")
        elif record.get("BatchFlag") == "0":
            say(
                f"Slurm job {job} is interactive, so it is not requeued; "
                "call `psclust up` again to resume"
            )
        elif before_this < allowed:
            say(
                f"requeued: attempt {before_this + 2} of {allowed + 1} of Slurm job {job} "
                "resumes from the checkpoint"
            )
            before()
            call(["scontrol", "requeue", job], environ)
            _wait(lambda: False)  # for its end
        elif record.get("PreemptTime", "None") != "None":
            say(
                f"Slurm pre-empts job {job}, "
                "and starts it again if that is how its partition is set up"
            )
            before()
            _wait(lambda: job_record(job, environ).get("JobState") != "RUNNING")
        else:
            limit = (
                f"slurm.requeue allows {allowed}, and this was the last"
                if allowed
                else "slurm: {requeue: 3} would do that three times"
            )
            say(f"Slurm job {job} is not requeued: {limit}")
    except UsageError as error:
        say(f"Slurm job {job} could not be requeued: {error}")


def _wait(over: Callable[[], bool]) -> None:
    end = time.monotonic() + _PREEMPTION_S
    while not over() and time.monotonic() < end:
        time.sleep(_POLL_S)
