"""Asking Slurm to start the job again, after a run that has saved its work because the time of its
allocation was over."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from psclust.errors import UsageError
from psclust.reach.slurm.allocation import job_record, scontrol

_PREEMPTION_S = 3600.0  # the longest grace that is waited for
_POLL_S = 1.0


def requeue(
    allowed: int, environ: Mapping[str, str], say: Callable[[str], None], before: Callable[[], None]
) -> None:
    """Requeue the job of this process, at most `allowed` times in all; Slurm then ends this
    process. Of a job that is being pre-empted, leave the rest to Slurm: it would not requeue a job
    that ends by itself. `say` gets a line for the user; `before` is called if the job may start
    again."""
    job, restarts = environ["SLURM_JOB_ID"], int(environ.get("SLURM_RESTART_COUNT", "0"))
    try:
        record = job_record(job, environ)
        if record.get("JobState") != "RUNNING" and record.get("Reason") != "TimeLimit":
            say(f"Slurm has ended job {job}; it is not requeued")
        elif record.get("BatchFlag") == "0":
            say(
                f"Slurm job {job} is interactive, so it is not requeued; "
                "call `psclust up` again to resume"
            )
        elif restarts < allowed:
            say(
                f"requeued: attempt {restarts + 2} of {allowed + 1} of Slurm job {job} "
                "resumes from the checkpoint"
            )
            before()
            scontrol(["requeue", job], environ)
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
