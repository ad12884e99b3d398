"""The request that the options of `up` and `plan` make: a cluster file with flags laid over it."""

from __future__ import annotations

from collections.abc import Sequence

import click
from click.core import ParameterSource

from psclust.cli.way_options import chosen_way, way_values
from psclust.errors import UsageError
from psclust.launch.default_file import default_file
from psclust.launch.up_request import UpRequest, read_request
from psclust.reach.ways import batch_of, find_hosts, host_maker
from psclust.spec.checks import Rule
from psclust.spec.found_hosts import FindHosts
from psclust.spec.load import Override
from psclust.spec.whole_number import whole_number


def request_from_flags(
    *,
    path: str | None,
    name: str | None,
    jobs: Sequence[str],
    env: Sequence[str],
    module: bool,
    no_preload: bool,
    run_dir: str | None,
    program: Sequence[str],
    laid_over: Sequence[Override] = (),
    rules: Sequence[Rule] = (),
    find_hosts: FindHosts = find_hosts,
    array_task: str | None = None,
    **flags: object,
) -> UpRequest:
    """`laid_over`: more than the flags. The others: see `psclust.spec.load.load`. Raises
    ClusterFileError with every mistake, or UsageError."""
    way = chosen_way(flags)
    overrides = [
        *laid_over,
        *(Override(option.flag, option.key, value) for option, value in way_values(flags)),
        *_flag_overrides(name, no_preload, flags),
        *_worker_overrides(flags["workers"]),
        *_pair_overrides(jobs, env),
        *_program_overrides(program, module),
    ]
    if path is None and not program:
        path = default_file()
    if way is not None:
        giver = batch_of(way) or host_maker(way)
        assert giver is not None
        rules, find_hosts = [giver.check_file], giver.hosts_of
    return read_request(
        path, overrides, run_dir, rules=rules, find_hosts=find_hosts, array_task=array_task
    )


def _flag_overrides(name: str | None, no_preload: bool, flags: dict[str, object]) -> list[Override]:
    sync = flags["sync"]
    single = [
        ("--name", ("name",), name),
        ("-H", ("hosts",), flags["hosts"]),
        ("--hostfile", ("hostfile",), flags["hostfile"]),
        ("--ps", ("jobs", "ps", "count"), flags["ps"]),
        ("--replication", ("replication",), flags["replication"]),
        (
            "--sync" if sync else "--async",
            ("update",),
            None if sync is None else "sync" if sync else "async",
        ),
        ("--backup-workers", ("backup_workers",), flags["backup_workers"]),
        ("--max-staleness", ("max_staleness",), flags["max_staleness"]),
        ("--input", ("input",), flags["input"]),
        ("--placement", ("placement", "policy"), flags["placement"]),
        ("--max-shard-bytes", ("placement", "max_shard_bytes"), flags["max_shard_bytes"]),
        ("--role-by", ("role_by",), flags["role_by"]),
        ("--ports", ("ports",), flags["ports"]),
        ("--admit", ("admit",), flags["admit"]),
        ("--metrics", ("metrics",), flags["metrics"]),
        ("--encrypt" if flags["encrypt"] else "--no-encrypt", ("encrypt",), flags["encrypt"]),
        ("--tensorboard", ("tensorboard",), flags["tensorboard"] or None),
        ("--python", ("python",), flags["python"]),
        ("--no-preload", ("preload",), False if no_preload else None),
    ]
    return [
        Override(_source(flag), path, value) for flag, path, value in single if value is not None
    ]


def _worker_overrides(text: object) -> list[Override]:
    """Of `--workers 4`, or `--workers 2:16`: at least 2, at most 16, and as many as there is room
    for."""
    if text is None:
        return []
    flag, job = _source("--workers"), ("jobs", "worker")
    least, colon, most = str(text).partition(":")
    low, high = whole_number(least), whole_number(most)
    if low is None or (colon and high is None):
        raise UsageError(
            f"{flag} {text}: found no number of tasks; write it as {flag} 4, or {flag} 2:16 "
            "for at least 2 and at most 16."
        )
    if not colon:
        return [Override(flag, (*job, "count"), low)]
    return [
        Override(flag, (*job, "count"), None),
        Override(flag, (*job, "min"), low),
        Override(flag, (*job, "max"), high),
    ]


def _source(flag: str) -> str:
    """`flag`, or the variable that has set it."""
    context = click.get_current_context(silent=True)
    for parameter in context.command.params if context else ():
        if (
            flag in (*parameter.opts, *parameter.secondary_opts)
            and parameter.name is not None
            and context is not None
        ):
            from_variable = (
                context.get_parameter_source(parameter.name) is ParameterSource.ENVIRONMENT
            )
            return str(parameter.envvar) if from_variable else flag
    return flag


def _pair_overrides(jobs: Sequence[str], env: Sequence[str]) -> list[Override]:
    overrides = []
    for text in jobs:
        job, _, digits = text.partition("=")
        count = whole_number(digits)
        if count is None:
            raise UsageError(f"--job {text}: found no number of tasks; write it as --job chief=1.")
        overrides.append(Override("--job", ("jobs", job, "count"), count))
    for text in env:
        variable, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--env {text}: found no value; write it as --env NAME=VALUE.")
        overrides.append(Override("--env", ("env", variable), value))
    return overrides


def _program_overrides(program: Sequence[str], module: bool) -> list[Override]:
    if not program:
        if module:
            raise UsageError("-m: found no module; write it as `psclust up -m package.train`.")
        return []
    first = ["-m", program[0]] if module else [program[0]]
    return [
        Override("PROGRAM", ("program",), first),
        Override("PROGRAM", ("args",), list(program[1:])),
    ]
