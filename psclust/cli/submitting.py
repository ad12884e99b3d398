"""`up` and `plan` of a run that becomes a batch job, such as `psclust up --slurm`."""

from __future__ import annotations

from collections.abc import Mapping

from psclust.cli import output
from psclust.cli.misplaced_options import warn_of_misplaced_options
from psclust.cli.request import request_from_flags
from psclust.launch.submission import check, prepare, submit
from psclust.reach.ways import batch_system
from psclust.rundir.folder import RunFolder
from psclust.spec.plurals import some_of


def submitted(flags: Mapping[str, object], *, only_show: bool, as_json: bool = False) -> int:
    """Submit a job, or only show its script and the batch system's answer to it; the exit code.
    Raises UsageError, StartError."""
    submission = prepare(
        lambda task: request_from_flags(array_task=task, **flags)  # type: ignore[arg-type]
    )
    request = submission.requests[0]
    warn_of_misplaced_options(request, flags["program"])  # type: ignore[arg-type]
    if request.file.suited and not as_json:
        output.say(f"note: {request.file.suited}")
    if only_show and as_json:
        output.data({"script": submission.script, batch_system().HOSTS: check(submission)})
        return 0
    if only_show:
        output.say(submission.script)
        output.say(f"sbatch --test-only: {check(submission)}")
        return 0
    check(submission)
    job = submit(submission)
    names = some_of([request.cluster.name for request in submission.requests])
    output.say(f"{names} {'are' if submission.array_tasks else 'is'} queued as {job}")
    name = request.cluster.name
    output.say(
        f"what the job prints: {RunFolder(request.cluster.path / submission.run_id).job_output}"
    )
    output.say(f"psclust ps {name}, psclust logs -f {name}, psclust down {name}")
    return 0
