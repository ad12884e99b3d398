"""The rules that the keys of a cluster file must obey together: the program and its jobs, tasks and
hosts, ports and their users. Each rule yields every breach it finds, and relies on each key being
valid by itself."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator

from psclust.placement.placement_settings import impossible_pins
from psclust.spec.address_checks import check_addresses
from psclust.spec.cluster import Task, no_such_task
from psclust.spec.cluster_file import ClusterFile, Placement
from psclust.spec.jobs import (
    BETWEEN_GRAPH,
    COORDINATOR,
    IN_GRAPH,
    PS,
    RESTART_ALL,
    WORKER,
    is_chief,
    is_in_cluster,
    replica_jobs,
)
from psclust.spec.key_types import ARRAY_TASK
from psclust.spec.placeholders import ARRAY_HINT, check_placeholders
from psclust.spec.plurals import counted
from psclust.spec.problems import KeyPath, Problem
from psclust.spec.program_command import ProgramKind, parse_program, split_program
from psclust.spec.python_command import is_interpreter
from psclust.spec.slot_checks import check_slots
from psclust.spec.spelling import inline, nearest
from psclust.spec.worker_range import check_range

Rule = Callable[[ClusterFile], Iterator[Problem]]


def check(file: ClusterFile) -> Iterator[Problem]:
    """Every breach of a rule."""
    for rule in _RULES:
        yield from rule(file)


def _program_is_one_word(file: ClusterFile) -> Iterator[Problem]:
    """The message takes `python train.py --lr 0.1` apart."""
    if not isinstance(file.program, str):
        return
    words = split_program(file.program)
    if words in ([], ["-m"]):
        yield Problem(
            ("program",),
            f"found '{file.program}'; write train.py, module:program, or -m and a module.",
        )
    elif len(words) > 1:
        name, *args = words[1:] if is_interpreter(words[0]) else words
        parts = f"program: {name}" + (f" and args: {inline(args)}" if args else "")
        yield Problem(
            ("program",),
            f"found several words, '{file.program}'; write {parts}, "
            "or the whole command as a list.",
        )


def _tensorboard_has_a_folder(file: ClusterFile) -> Iterator[Problem]:
    if file.tensorboard is True and not file.program_command.is_psclust:
        text = (
            "the folder of event files is known of psclust programs alone; "
            "write where this one has them, such as tensorboard: logs."
        )
        yield Problem(("tensorboard",), text, (("program",),))


def _name_is_complete(file: ClusterFile) -> Iterator[Problem]:
    if file.array_task is None and ARRAY_TASK in file.name:
        yield Problem(
            ("name",),
            f"'{file.name}' has {ARRAY_TASK}, "
            f"which only a task of an array job knows; {ARRAY_HINT}",
        )


def _groups_of_a_job_have_a_value_each(file: ClusterFile) -> Iterator[Problem]:
    lists = {
        key: value
        for key in ("partition", "nodes", "gpus")
        if isinstance(value := getattr(file.slurm, key), list)
    }
    longest = max(map(len, lists.values()), default=0)
    for key, value in lists.items():
        if len(value) < longest:
            yield Problem(
                ("slurm", key),
                f"found {counted(len(value), 'value')} where others have {longest}; "
                "write one for each group.",
            )


def _pods_are_not_listed(file: ClusterFile) -> Iterator[Problem]:
    if file.reach_by == "kubernetes" and file.found is None:
        yield Problem(
            ("reach_by",),
            "psclust makes the pods itself; remove this, and call `psclust up --kubernetes`.",
            (("hosts",),),
        )


def _arguments_have_a_program(file: ClusterFile) -> Iterator[Problem]:
    if file.program is None and file.args:
        yield Problem(
            ("args",),
            "there is no program to take these arguments; name it under program.",
            (("program",),),
        )


def _replication_suits_the_program(file: ClusterFile) -> Iterator[Problem]:
    program = file.program_command
    if (
        file.replication == IN_GRAPH
        and not program.is_psclust
        and program.kind is not ProgramKind.NONE
    ):
        text = (
            "in-graph needs a psclust program (module:program); for a script of your own write "
            "coordinator, whose chief drives bare ps and worker servers."
        )
        yield Problem(("replication",), text, (("program",),))
    if file.replication == COORDINATOR and program.is_psclust:
        text = (
            "coordinator is for scripts; a psclust program (module:program) "
            "runs in-graph or between-graph."
        )
        yield Problem(("replication",), text, (("program",), ("jobs", "*")))


def _psclust_program_has_ps_and_workers(file: ClusterFile) -> Iterator[Problem]:
    reads = (("program",), ("replication",), ("jobs", "*"))
    for name in (PS, WORKER) if file.program_command.is_psclust else ():
        if name not in file.jobs:
            near = nearest(name, file.jobs)
            hint = (
                f"did you mean {name} where it says {near}?"
                if near
                else f"write {name}: 1 or more."
            )
            yield Problem(
                ("jobs",),
                f"a psclust program needs at least one {name} and there is none; {hint}",
                reads,
            )
        elif file.jobs[name].count == 0:
            yield Problem(
                ("jobs", name, "count"),
                f"a psclust program needs at least one {name}; write 1 or more.",
                reads,
            )


def _in_graph_has_one_client(file: ClusterFile) -> Iterator[Problem]:
    if file.replication == IN_GRAPH and file.program_command.is_psclust:
        for name in (name for name, job in file.jobs.items() if is_chief(name) and job.count):
            text = (
                "an in-graph program has one client, which psclust adds by itself; remove this job."
            )
            yield Problem(("jobs", name), text, (("program",), ("replication",), ("jobs", "*")))


def _pins_name_a_ps(file: ClusterFile) -> Iterator[Problem]:
    count = file.jobs[PS].count if PS in file.jobs and file.program_command.is_psclust else 0
    for pattern, index in impossible_pins(file.placement.pin, count) if count else ():
        yield Problem(
            ("placement", "pin", pattern),
            no_such_task(Task(PS, index), count),
            (("jobs", PS, "count"), ("jobs", PS, "addresses")),
        )


def _backup_workers_leave_a_gradient(file: ClusterFile) -> Iterator[Problem]:
    if not file.backup_workers or not file.program_command.is_psclust:
        return
    here = ("backup_workers",)
    replicas = sum(
        file.jobs[name].count for name in replica_jobs(BETWEEN_GRAPH) if name in file.jobs
    )
    if file.update == "async":
        yield Problem(
            here,
            "asynchronous workers never wait; remove it, or write update: sync.",
            (("update",),),
        )
    elif file.replication == IN_GRAPH:
        text = (
            "an in-graph step is one run of all towers, and none can be late by itself; "
            "remove it, or write replication: between-graph."
        )
        yield Problem(here, text, (("replication",),))
    elif file.backup_workers >= replicas:
        text = (
            f"{file.backup_workers} of {replicas} workers as backup leave no gradient to wait for; "
        )
        text += (
            f"write {replicas - 1} or less."
            if replicas > 1
            else "it takes two workers; remove it, or raise jobs.worker."
        )
        yield Problem(here, text, (("jobs", WORKER, "count"), ("jobs", WORKER, "addresses")))


def _staleness_is_of_asynchronous_workers(file: ClusterFile) -> Iterator[Problem]:
    if file.max_staleness is not None and file.update == "sync" and file.program_command.is_psclust:
        yield Problem(
            ("max_staleness",),
            "synchronous workers are never ahead; remove it, or write update: async.",
            (("update",),),
        )


def _keys_have_an_effect(file: ClusterFile) -> Iterator[Problem]:
    """Scripts ignore the keys of psclust programs, and the other way round."""
    reads = (("program",), ("jobs", "*"))
    if file.program_command.is_psclust:
        if file.role_by in ("flags", "tf_config"):
            yield Problem(
                ("role_by",),
                "a psclust program learns its role from psclust itself; remove this.",
                reads,
            )
        return
    if any(parse_program(job.command).is_psclust for job in file.jobs.values()):
        return
    name = (
        file.program
        if isinstance(file.program, str)
        else shlex.join(file.program)
        if file.program
        else None
    )
    why = (
        "only a psclust program (module:program) "
        f"uses this, and {f'{name} is none' if name else 'there is none'}; remove it."
    )
    given: dict[KeyPath, bool] = {
        ("update",): file.update == "sync",
        ("backup_workers",): bool(file.backup_workers),
        ("max_staleness",): file.max_staleness is not None,
        ("input",): file.input != "sharded",
        ("deadlines", "progress"): file.deadlines.progress is not None,
        **{
            ("placement", key): getattr(file.placement, key) != default
            for key, default in Placement().model_dump().items()
        },
    }
    yield from (Problem(path, why, reads) for path, is_given in given.items() if is_given)


def _some_task_exists(file: ClusterFile) -> Iterator[Problem]:
    if not any(job.count for job in file.jobs.values()):
        yield Problem(
            ("jobs",),
            "there is no task to start; give a job a count of 1 or more, for example worker: 2.",
            (("jobs",),),
        )


def _jobs_have_a_program(file: ClusterFile) -> Iterator[Problem]:
    """Their own arguments too must reach one."""
    for name, job in file.jobs.items():
        here = ("jobs", name)
        for key, value in (
            ("args", job.args),
            ("extra_args", job.extra_args),
            ("task_args", job.task_args),
        ):
            if value and job.run == "server":
                text = (
                    "run: server starts a bare TensorFlow server, which takes no arguments; "
                    "remove them, or write run: program."
                )
                yield Problem((*here, key), text, ((*here, "run"),))
            elif value and job.command and key != "task_args":
                yield Problem(
                    (*here, key),
                    "this job has a command of its own; write its arguments there, under run.",
                    ((*here, "run"),),
                )
        if job.run == "program" and file.program is None:
            text = (
                "the file names no program; write one under program, "
                "or give this job a command: run: [...]."
            )
            yield Problem((*here, "run"), text, (("program",),))


def _task_indices_exist(file: ClusterFile) -> Iterator[Problem]:
    for name, job in file.jobs.items():
        for key, indices in (("task_args", job.task_args), ("task_env", job.task_env)):
            for index in (index for index in indices if index >= job.count):
                yield Problem(
                    ("jobs", name, key, str(index)),
                    no_such_task(Task(name, index), job.count),
                    (("jobs", name, "count"), ("jobs", name, "addresses")),
                )


def _ends_with_names_jobs(file: ClusterFile) -> Iterator[Problem]:
    present = [name for name, job in file.all_jobs.items() if job.count]
    for index, name in enumerate(file.ends_with if isinstance(file.ends_with, list) else ()):
        if name not in present:
            near = nearest(name, present)
            hint = f"did you mean {near}?" if near else f"the jobs are {', '.join(present)}."
            yield Problem(
                ("ends_with", index),
                f"no task belongs to a job '{name}'; {hint}",
                (("jobs", "*"), ("replication",)),
            )


def _restarted_tasks_may_start_again(file: ClusterFile) -> Iterator[Problem]:
    once = [
        name
        for name, job in file.all_jobs.items()
        if job.count
        and is_in_cluster(name, job.in_cluster)
        and (job.restart or file.restart).when == "never"
    ]
    for key in ("on_ps_failure", "on_worker_failure"):
        if once and getattr(file, key) == RESTART_ALL:
            text = (
                "restart-all starts all tasks of the cluster again, and those of "
                f"{', '.join(once)} are to be started once only (restart: when: never); "
                "remove one of the two."
            )
            yield Problem((key,), text, (("restart", "when"), ("jobs", "*")))


_RULES: tuple[Rule, ...] = (
    _name_is_complete,
    _groups_of_a_job_have_a_value_each,
    _pods_are_not_listed,
    _program_is_one_word,
    _arguments_have_a_program,
    _replication_suits_the_program,
    _psclust_program_has_ps_and_workers,
    _in_graph_has_one_client,
    _pins_name_a_ps,
    _backup_workers_leave_a_gradient,
    _staleness_is_of_asynchronous_workers,
    _keys_have_an_effect,
    _tensorboard_has_a_folder,
    _some_task_exists,
    check_range,
    _jobs_have_a_program,
    _task_indices_exist,
    _ends_with_names_jobs,
    _restarted_tasks_may_start_again,
    check_slots,
    check_addresses,
    check_placeholders,
)
