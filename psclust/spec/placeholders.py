"""The placeholders in arguments and environment (`{ps_hosts}`, `{worker_hosts:;}`,
`{address:worker:0}`, ...): which exist, where a cluster file uses them, and every mistake in
them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from psclust.spec.cluster import Task, no_such_task
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.job_keys import Job
from psclust.spec.jobs import CHIEF, PS, WORKER, is_in_cluster
from psclust.spec.key_types import ARRAY_TASK
from psclust.spec.problems import KeyPath, Problem
from psclust.spec.spelling import nearest

PATTERN = re.compile(r"\{\{|\}\}|\{([a-z][a-z0-9_]*)(?::([^{}]*))?\}")
_TASK = re.compile(r"([a-z][a-z0-9_]*):([0-9]{1,18})")
FREE_PORT = "free_port"
_ARRAY_NAME = ARRAY_TASK.strip("{}")
ARRAY_HINT = "write slurm: {sbatch: [--array=0-3]}, and start it with `psclust up --slurm`."
# Scripts name these jobs even if a cluster has none: then `{chief_hosts}` is empty.
USUAL_JOBS = (PS, WORKER, CHIEF)
_OWN = {"job_name", "task_index", "address", "host", "port"}
_CLUSTER = {"cluster", "tf_config"}
_OTHERS = {"num_ps", "num_workers", "name", "run_dir", FREE_PORT}


@dataclass(frozen=True, slots=True)
class Placeholder:
    """`{name}`, or `{name:argument}`: the addresses of a job with another separator than a comma,
    or the address of one task."""

    name: str
    argument: str | None = None

    @classmethod
    def of(cls, match: re.Match[str]) -> Placeholder | None:
        """The placeholder that PATTERN matched; None for an escaped brace, and for other text in
        braces, such as `{lr:0.1}`."""
        name, argument = match[1], match[2]
        if name is None:
            return None
        takes_argument = name == "address" or name.endswith("_hosts")
        if (
            argument is None
            or takes_argument
            or (name in ("host", "port") and _TASK.fullmatch(argument))
        ):
            return cls(name, argument)
        return None

    def __str__(self) -> str:
        return f"{{{self.name}}}" if self.argument is None else f"{{{self.name}:{self.argument}}}"

    @property
    def task(self) -> Task | None:
        """The one task whose address it holds."""
        match = (
            _TASK.fullmatch(self.argument)
            if self.argument is not None and not self.name.endswith("_hosts")
            else None
        )
        return Task(match[1], int(match[2])) if match else None

    @property
    def is_own(self) -> bool:
        """Whether its value differs from task to task."""
        return self.name in _OWN and self.argument is None

    @property
    def is_of_cluster(self) -> bool:
        """Whether it holds addresses of other tasks."""
        return self.name in _CLUSTER or self.name.endswith("_hosts") or self.argument is not None


def placeholders(text: str) -> Iterator[Placeholder]:
    for match in PATTERN.finditer(text):
        found = Placeholder.of(match)
        if found is not None:
            yield found


def texts_of_job(file: ClusterFile, name: str, job: Job) -> Iterator[tuple[KeyPath, str]]:
    """Every text in which placeholders are filled in for the tasks of the job, and its place."""
    here = ("jobs", name)
    if job.command:
        yield from _items((*here, "run"), job.command)
    else:
        yield from _items(("program",), file.program if isinstance(file.program, list) else ())
        yield from _items(("args",), file.args if job.args is None else ())
        yield from _items((*here, "args"), job.args or ())
        yield from _items((*here, "extra_args"), job.extra_args)
    yield from _values(("env",), file.env)
    yield from _values((*here, "env"), job.env)
    for index, args in job.task_args.items():
        yield from _items((*here, "task_args", str(index)), args)
    for index, env in job.task_env.items():
        yield from _values((*here, "task_env", str(index)), env)


def _items(path: KeyPath, texts: Sequence[str]) -> Iterator[tuple[KeyPath, str]]:
    return (((*path, index), text) for index, text in enumerate(texts))


def _values(path: KeyPath, env: Mapping[str, object]) -> Iterator[tuple[KeyPath, str]]:
    return (((*path, name), str(value)) for name, value in env.items())


def check_placeholders(file: ClusterFile) -> Iterator[Problem]:
    """Every placeholder that does not exist."""
    jobs = {name: job for name, job in file.all_jobs.items() if is_in_cluster(name, job.in_cluster)}
    sizes = {name: len(job.addresses or ()) or job.count for name, job in jobs.items()}
    texts = {
        path: text
        for name, job in file.all_jobs.items()
        for path, text in texts_of_job(file, name, job)
    }
    for path, text in texts.items():
        for placeholder in dict.fromkeys(placeholders(text)):
            if placeholder.name == _ARRAY_NAME:
                mistake = None
                if file.array_task is None:
                    mistake = f"{ARRAY_TASK}, which only a task of an array job knows; {ARRAY_HINT}"
            else:
                mistake = _mistake(
                    placeholder, {name: size for name, size in sizes.items() if size}
                )
            if mistake is not None:
                yield Problem(path, f"'{text}' has {mistake}", (("jobs", "*"), ("replication",)))


def _mistake(placeholder: Placeholder, sizes: Mapping[str, int]) -> str | None:
    """What is wrong and what to write, as a phrase that follows `has`."""
    if placeholder.argument is not None and not placeholder.name.endswith("_hosts"):
        return _wrong_task(placeholder, sizes)
    known = [
        *sorted(_OWN | _CLUSTER | _OTHERS),
        *(f"{job}_hosts" for job in dict.fromkeys((*USUAL_JOBS, *sizes))),
    ]
    if placeholder.name not in known:
        near = nearest(placeholder.name, known)
        hint = (
            f"did you mean {{{near}}}?"
            if near
            else f"known are {', '.join(sorted(known))}. Write {{{{ and }}}} for braces."
        )
        return f"the unknown placeholder {placeholder}; {hint}"
    if placeholder.argument == "":
        return (
            f"no separator in {placeholder}; write it after the colon, "
            f"as in {{{placeholder.name}:;}}."
        )
    return None


def _wrong_task(placeholder: Placeholder, sizes: Mapping[str, int]) -> str | None:
    some = next((name for name in ("worker", *sizes) if name in sizes), "worker")
    task = placeholder.task
    if task is None:
        return f"{placeholder}, which names no task; write {{{placeholder.name}:{some}:0}}."
    if task.job not in sizes:
        near = nearest(task.job, sizes)
        hint = f"did you mean {near}?" if near else f"the cluster's jobs are {', '.join(sizes)}."
        return f"{placeholder}, and no task of the cluster belongs to a job '{task.job}'; {hint}"
    if task.index >= sizes[task.job]:
        return f"{placeholder}, and {no_such_task(task, sizes[task.job])}"
    return None
