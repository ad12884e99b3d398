"""Adds the chief that runs a script which coordinates workers (`ParameterServerStrategy`,
`ClusterCoordinator`), unless the user has decided how it runs. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from psclust.plan.script_facts import COORDINATING, read_facts
from psclust.spec.cluster_file import ClusterText
from psclust.spec.job_keys import Job
from psclust.spec.jobs import CHIEF, COORDINATOR, PS, WORKER, is_chief, is_observer


def coordinated(
    text: ClusterText, name: str, sources: Sequence[str]
) -> tuple[ClusterText, str | None]:
    """The file as its script `name` needs it, and a sentence about what was changed: `replication:
    coordinator` with a chief, or the chief alone where the script starts the servers of ps and
    workers itself. None if the file stays as it is. sources: of the script and of what it
    imports."""
    if not _is_open(text) or not any(word in each for each in sources for word in COORDINATING):
        return text, None
    facts = read_facts(sources)
    if not facts.coordinates:
        return text, None
    chief = next((job for job in text.jobs if is_chief(job)), None)
    if not facts.starts_servers:
        who = f"only the {chief} runs it" if chief else "only a chief, which psclust adds, runs it"
        note = (
            f"{name} coordinates the workers: {who}; ps and workers are bare servers. "
            "To run it in every task: --replication between-graph."
        )
        return text.model_copy(update={"replication": COORDINATOR}), note
    if chief is None and facts.reads_tf_config:
        note = (
            f"{name} coordinates the workers and starts their servers: psclust adds its chief. "
            "To leave it out: --job chief=0."
        )
        return text.model_copy(update={"jobs": text.jobs | {CHIEF: Job(count=1)}}), note
    return text, None


def _is_open(text: ClusterText) -> bool:
    """Whether the file and the flags leave open which tasks run the script."""
    served = [job for name, job in text.jobs.items() if name in (PS, WORKER)]
    usual = all(name in (PS, WORKER) or is_chief(name) or is_observer(name) for name in text.jobs)
    has_workers = WORKER in text.jobs and text.jobs[WORKER].count > 0
    no_chief = any(is_chief(name) and not job.count for name, job in text.jobs.items())
    by_workers = text.ends_with == "workers" or (
        isinstance(text.ends_with, list) and bool({PS, WORKER} & set(text.ends_with))
    )
    free = text.replication is None and text.role_by != "none" and not by_workers
    return (
        free
        and usual
        and has_workers
        and not no_chief
        and not any(map(_runs_by_the_users_word, served))
    )


def _runs_by_the_users_word(job: Job) -> bool:
    return job.run is not None or bool(job.args is not None or job.extra_args or job.task_args)
