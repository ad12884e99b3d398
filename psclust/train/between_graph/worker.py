"""Training as one of several clients: a worker, or the chief, of a between-graph cluster."""

from __future__ import annotations

from psclust.train.between_graph.chief import Chief
from psclust.train.between_graph.replica import Replica
from psclust.train.job import Job
from psclust.train.session import recover


def train_worker(job: Job) -> None:
    """Trains this task's replica until its data or the wanted number of steps is used up. The chief stays until all others have ended
    and leaves a checkpoint of the result."""
    replica = Chief(job) if job.context.is_chief else Replica(job)
    recover(replica.attempt, job.context, lambda: job.reporter.steps)
