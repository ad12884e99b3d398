"""Host, task and cluster spec."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from psclust.spec.whole_number import whole_number


@dataclass(frozen=True, slots=True)
class Host:
    """A machine we may use. `slots` is how many tasks it takes (None: as many as asked); `user` and
    `port` are for SSH."""

    name: str
    slots: int | None = None
    user: str | None = None
    port: int | None = None


@dataclass(frozen=True, slots=True)
class TunnelWay:
    """How to open a tunnel to a host (`psclust.reach.ways`). settings: of `reach_by`, as JSON."""

    reach_by: str
    host: Host
    settings: Mapping[str, Any]


LOCALHOST = Host("localhost")


def numeric(host: str) -> str:
    """`localhost` as 127.0.0.1, because TensorFlow's servers bind IPv4 only; any other host as it
    is."""
    return "127.0.0.1" if host == LOCALHOST.name else host


@dataclass(frozen=True, slots=True, order=True)
class Task:
    """One task of a job, written `worker:0`."""

    job: str
    index: int

    def __str__(self) -> str:
        return f"{self.job}:{self.index}"

    @classmethod
    def parse(cls, text: str) -> Task:
        """`worker:3` or `worker/3`; a bare job name means its task 0. Raises ValueError."""
        job, _, index = text.replace("/", ":").partition(":")
        number = whole_number(index) if index else 0
        if not job or number is None:
            raise ValueError(f"{text!r} is not a task: write it as job:index, for example worker:0")
        return cls(job, number)


def no_such_task(task: Task, count: int) -> str:
    """The sentence about a task beyond the `count` ones of its job."""
    last = f"the last task is {Task(task.job, count - 1)}; indices begin at 0."
    return f"there is no {task}: {last if count else 'the job has no task.'}"


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """job -> addresses (`host:port`), TensorFlow's `tf.train.ClusterSpec`; the list position is the
    task index."""

    jobs: Mapping[str, tuple[str, ...]]

    def tasks(self) -> Iterator[Task]:
        for job, addresses in self.jobs.items():
            for index in range(len(addresses)):
                yield Task(job, index)

    def address(self, task: Task) -> str | None:
        addresses = self.jobs.get(task.job, ())
        return addresses[task.index] if task.index < len(addresses) else None

    def count(self, job: str) -> int:
        return len(self.jobs.get(job, ()))

    def as_dict(self) -> dict[str, list[str]]:
        return {job: list(addresses) for job, addresses in self.jobs.items() if addresses}


def render_tf_config(cluster: ClusterSpec, task: Task) -> str:
    """The JSON text for `task`. A task outside the cluster (an evaluator) still gets the cluster,
    as TensorFlow's resolver expects."""
    return json.dumps(
        {"cluster": cluster.as_dict(), "task": {"type": task.job, "index": task.index}},
        separators=(",", ":"),
    )
