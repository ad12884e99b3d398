"""What the parts of a cluster file say of each other: the program and its jobs, the tasks and their hosts, the ports and their users. Every
key is sound by itself when it comes here; each check yields all the contradictions it finds."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping

from psclust.placement.pins import impossible_pins
from psclust.spec.address_checks import check_network
from psclust.spec.cluster_file import ClusterFile, Job, Placement
from psclust.spec.placeholders import check_placeholders
from psclust.spec.problems import KeyPath, Problem
from psclust.spec.slot_checks import check_room
from psclust.spec.spelling import inline, nearest

PSCLUST_PROGRAM = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")  # module:program
_CHIEFS = ("chief", "master", "client")


def check(file: ClusterFile) -> Iterator[Problem]:
    """Every contradiction in a file whose single values are sound."""
    jobs = file.jobs | _added_jobs(file)
    yield from _program(file)
    if is_psclust_program(file):
        yield from _psclust_program(file)
        yield from _pins(file)
        yield from _pace(file)
    yield from _without_effect(file)
    yield from _jobs(file)
    yield from _ends_with(file, jobs)
    yield from check_room(file, jobs)
    yield from check_network(file, jobs)
    yield from check_placeholders(file, jobs)


def is_psclust_program(file: ClusterFile) -> bool:
    word = file.program if isinstance(file.program, str) else next(iter(file.program or ()), "")
    return PSCLUST_PROGRAM.fullmatch(word) is not None


def _without_effect(file: ClusterFile) -> Iterator[Problem]:
    """Keys that only some programs heed, for one that does not."""
    runs = [file.program, *(job.run for job in file.jobs.values() if isinstance(job.run, list))]
    reads = (("program",), ("jobs", "*"))
    if is_psclust_program(file):
        if file.role_by in ("flags", "tf_config"):
            yield Problem(("role_by",), "a psclust program learns its place from psclust itself; remove this.", reads)
        return
    if any(PSCLUST_PROGRAM.fullmatch(run[0]) for run in runs if isinstance(run, list)):
        return
    name = file.program if isinstance(file.program, str) else shlex.join(file.program) if file.program else None
    why = f"only a psclust program (module:program) heeds this, and {f'{name} is none' if name else 'there is none'}; remove it."
    given: dict[KeyPath, bool] = {
        ("update",): file.update == "sync",
        ("backup_workers",): bool(file.backup_workers),
        ("max_staleness",): file.max_staleness is not None,
        **{("placement", key): getattr(file.placement, key) != default for key, default in Placement().model_dump().items()},
    }
    yield from (Problem(path, why, reads) for path, is_given in given.items() if is_given)


def _added_jobs(file: ClusterFile) -> dict[str, Job]:
    """The one task that psclust adds itself: the client of an in-graph program, or the chief of a coordinator script."""
    present = {name for name, job in file.jobs.items() if job.count}
    if file.replication == "in-graph" and is_psclust_program(file):
        return {"client": Job()}
    if file.replication == "coordinator" and file.program is not None and not present & set(_CHIEFS):
        return {"chief": Job()}
    return {}


def _program(file: ClusterFile) -> Iterator[Problem]:
    if isinstance(file.program, str):
        yield from _several_words(file.program)
    if file.program is None and file.args:
        yield Problem(("args",), "there is no program to take these arguments; name it under program.", (("program",),))
    if file.replication == "in-graph" and file.program is not None and not is_psclust_program(file):
        text = (
            "in-graph needs a psclust program (module:program); for a script of your own write coordinator, "
            "whose chief drives bare ps and worker servers."
        )
        yield Problem(("replication",), text, (("program",),))


def program_words(program: str) -> list[str]:
    """A program's text taken apart as a shell would: one word where it is a program alone, which `-m module` and a path with blanks are."""
    try:
        words = shlex.split(program)
    except ValueError:
        return [program]
    start = 1 if words and re.fullmatch(r"python[\d.]*", words[0]) else 0
    if words[start : start + 1] == ["-m"]:
        words[start : start + 2] = [" ".join(words[start : start + 2])]
    is_path = start == 0 and program.endswith(".py") and not any(word.startswith("-") for word in words)
    return [program] if is_path else words


def _several_words(program: str) -> Iterator[Problem]:
    """`python train.py --lr 0.1` is three things; the message takes them apart."""
    words = program_words(program)
    if words in ([], ["-m"]):
        yield Problem(("program",), f"found '{program}'; write train.py, module:program, or -m and a module.")
    elif len(words) > 1:
        name, *args = words[1:] if re.fullmatch(r"python[\d.]*", words[0]) else words
        parts = f"program: {name}" + (f" and args: {inline(args)}" if args else "")
        yield Problem(("program",), f"found several words, '{program}'; write {parts}, or the whole command as a list.")


def _psclust_program(file: ClusterFile) -> Iterator[Problem]:
    reads = (("program",), ("replication",), ("jobs", "*"))
    if file.replication == "coordinator":
        text = "coordinator is for scripts; a psclust program (module:program) runs in-graph or between-graph."
        yield Problem(("replication",), text, reads)
    for name in ("ps", "worker"):
        if name not in file.jobs:
            near = nearest(name, file.jobs)
            hint = f"did you mean {name} where it says {near}?" if near else f"write {name}: 1 or more."
            yield Problem(("jobs",), f"a psclust program needs at least one {name} and there is none; {hint}", reads)
        elif file.jobs[name].count == 0:
            yield Problem(("jobs", name, "count"), f"a psclust program needs at least one {name}; write 1 or more.", reads)
    for name in ("chief", "client"):
        if file.replication == "in-graph" and name in file.jobs and file.jobs[name].count:
            text = "an in-graph program has one client, which psclust adds by itself; remove this job."
            yield Problem(("jobs", name), text, reads)


def _pins(file: ClusterFile) -> Iterator[Problem]:
    count = file.jobs["ps"].count if "ps" in file.jobs else 0
    if count:
        for pattern, index in impossible_pins(file.placement.pin, count):
            text = f"there is no ps:{index} to hold these variables: the last one is ps:{count - 1}; indices begin at 0."
            yield Problem(("placement", "pin", pattern), text, (("jobs", "ps", "count"), ("jobs", "ps", "addresses")))


def _pace(file: ClusterFile) -> Iterator[Problem]:
    """Who waits for whom."""
    here = ("backup_workers",)
    workers = sum(file.jobs[name].count for name in ("chief", "worker") if name in file.jobs)
    if file.backup_workers and file.update == "async":
        yield Problem(here, "asynchronous workers wait for nobody; remove it, or write update: sync.", (("update",),))
    elif file.backup_workers and file.replication == "in-graph":
        text = "an in-graph step is one run of all towers, and none can be late by itself; remove it, or write replication: between-graph."
        yield Problem(here, text, (("replication",),))
    elif file.backup_workers and file.backup_workers >= workers:
        text = f"{file.backup_workers} of {workers} workers as backup leave no gradient to wait for; "
        text += f"write {workers - 1} or less." if workers > 1 else "it takes two workers; remove it, or raise jobs.worker."
        yield Problem(here, text, (("jobs", "worker", "count"), ("jobs", "worker", "addresses")))
    if file.max_staleness is not None and file.update == "sync":
        yield Problem(("max_staleness",), "synchronous workers are never ahead; remove it, or write update: async.", (("update",),))


def _jobs(file: ClusterFile) -> Iterator[Problem]:
    if not any(job.count for job in file.jobs.values()):
        yield Problem(("jobs",), "there is no task to start; give a job a count of 1 or more, for example worker: 2.", (("jobs",),))
    for name, job in file.jobs.items():
        here = ("jobs", name)
        for key, value in (("args", job.args), ("extra_args", job.extra_args), ("task_args", job.task_args)):
            if value and job.run == "server":
                text = "run: server starts a bare TensorFlow server, which takes no arguments; remove them, or write run: program."
                yield Problem((*here, key), text, ((*here, "run"),))
            elif value and isinstance(job.run, list) and key != "task_args":
                yield Problem((*here, key), "this job has a command of its own; write its arguments there, under run.", ((*here, "run"),))
        if job.run == "program" and file.program is None:
            text = "the file names no program; write one under program, or give this job a command: run: [...]."
            yield Problem((*here, "run"), text, (("program",),))
        yield from _task_indices(name, job)


def _task_indices(name: str, job: Job) -> Iterator[Problem]:
    for key, indices in (("task_args", job.task_args), ("task_env", job.task_env)):
        for index in indices:
            if index >= job.count:
                last = f"the last task is {name}:{job.count - 1}; indices begin at 0." if job.count else "the job has no task."
                reads = (("jobs", name, "count"), ("jobs", name, "addresses"))
                yield Problem(("jobs", name, key, str(index)), f"there is no {name}:{index}: {last}", reads)


def _ends_with(file: ClusterFile, jobs: Mapping[str, Job]) -> Iterator[Problem]:
    if not isinstance(file.ends_with, list):
        return
    present = [name for name, job in jobs.items() if job.count]
    for index, name in enumerate(file.ends_with):
        if name not in present:
            near = nearest(name, present)
            hint = f"did you mean {near}?" if near else f"the jobs are {', '.join(present)}."
            yield Problem(("ends_with", index), f"no task belongs to a job '{name}'; {hint}", (("jobs", "*"), ("replication",)))
