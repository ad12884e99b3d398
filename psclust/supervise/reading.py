"""One look at a task of a live run: how far it is, and what it uses."""

from __future__ import annotations

from dataclasses import dataclass

from psclust.rundir.task_progress import Progress
from psclust.spec.typed_json import JsonRecord, Measured
from psclust.supervise.explain import Evidence
from psclust.supervise.run_state import TaskState
from psclust.transport.gpu_usage import GpuUsage
from psclust.transport.task_usage import Usage

FROZEN = "frozen"  # the state of a task that a signal has stopped


@dataclass(frozen=True, slots=True)
class Reading(JsonRecord):
    """state: the task's phase, or `frozen` by a signal. usage: None without a process, or where its
    host did not answer. step: the global one that the task knows of. step_age_s: seconds since its
    step, or what it does, last changed. examples_per_s, loss, staleness: as the program reports
    them. barrier_s: spent in the barrier so far. strangers: connections that its server has closed
    because their peers are not of the run."""

    task: str
    role: str
    host: str
    state: str
    attempt: int
    usage: Usage | None = None
    step: int | None = None
    step_age_s: float | None = None
    examples_per_s: Measured | None = None
    loss: Measured | None = None
    staleness: Measured | None = None
    barrier_s: float | None = None
    strangers: int | None = None

    @property
    def gpu(self) -> GpuUsage:
        """Without a GPU all of it is None."""
        return (self.usage.gpu if self.usage else None) or GpuUsage()


def read_task(evidence: Evidence, entry: TaskState) -> Reading:
    task, facts = entry.plan.task, evidence.facts(entry)
    progress, seen = evidence.progress.get(task) or Progress(), evidence.seen.get(task)
    return Reading(
        task=str(task),
        role=entry.plan.role,
        host=entry.plan.host,
        state=FROZEN if facts is not None and facts.is_frozen else entry.phase.value,
        attempt=entry.attempt,
        usage=facts.usage if facts is not None else None,
        step=progress.step,
        step_age_s=evidence.now - seen.since
        if seen is not None and seen.step is not None
        else None,
        examples_per_s=progress.examples_per_s,
        loss=progress.loss,
        staleness=progress.metrics.get("staleness"),
        barrier_s=progress.seconds.get("barrier"),
        strangers=facts.strangers.closed if facts is not None else None,
    )
