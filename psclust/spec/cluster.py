"""The nouns of a cluster: host, task, cluster spec. Values only; nothing here reads a file, a clock or the network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

# Jobs that hold a TensorFlow server in everybody's cluster spec, in the order in which TensorFlow programs list them.
JOB_ORDER = ("chief", "master", "ps", "worker")


@dataclass(frozen=True, slots=True)
class Host:
    """A machine we may use. `slots` is how many tasks it takes (None: as many as asked); `user` and `port` are for SSH."""

    name: str
    slots: int | None = None
    user: str | None = None
    port: int | None = None


LOCALHOST = Host("localhost")


@dataclass(frozen=True, slots=True, order=True)
class Task:
    """One member of a job, written `worker:0`."""

    job: str
    index: int

    def __str__(self) -> str:
        return f"{self.job}:{self.index}"

    @classmethod
    def parse(cls, text: str) -> Task:
        """`worker:3` or `worker/3`; a bare job name means its task 0. Raises ValueError."""
        job, _, index = text.replace("/", ":").partition(":")
        if not job or (index and not index.isdigit()):
            raise ValueError(f"{text!r} is not a task: write it as job:index, for example worker:0")
        return cls(job, int(index or 0))


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """job -> addresses (`host:port`), TensorFlow's `tf.train.ClusterSpec`; the list position is the task index."""

    jobs: Mapping[str, tuple[str, ...]]

    def tasks(self) -> Iterator[Task]:
        for job, addresses in self.jobs.items():
            for index in range(len(addresses)):
                yield Task(job, index)

    def address(self, task: Task) -> str | None:
        addresses = self.jobs.get(task.job, ())
        return addresses[task.index] if task.index < len(addresses) else None

    def as_dict(self) -> dict[str, list[str]]:
        return {job: list(addresses) for job, addresses in self.jobs.items() if addresses}
