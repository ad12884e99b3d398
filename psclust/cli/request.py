"""The request that the options of `up` and `plan` make: a cluster file with flags laid over it."""

from __future__ import annotations

from collections.abc import Sequence

import click
from click.core import ParameterSource

from psclust.errors import UsageError
from psclust.launch.default_file import default_file
from psclust.launch.up_request import UpRequest, read_request
from psclust.reach.ways import batch_system, host_maker
from psclust.spec.kubernetes_checks import check_for_kubernetes, check_for_pods, refuse_hosts
from psclust.spec.load import Override


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
    for_kubernetes: bool = False,
    for_slurm: bool = False,
    kubernetes: bool = False,
    image: str | None = None,
    array_task: str | None = None,
    **flags: object,
) -> UpRequest:
    """`for_kubernetes`: for a manifest. `kubernetes`: for pods that psclust makes.
    `for_slurm`: for a job that is to be submitted; `array_task`: see `psclust.spec.load.load`.
    Raises ClusterFileError with every mistake, or UsageError."""
    if kubernetes and for_slurm:
        raise UsageError(
            "--slurm and --kubernetes: a run is in a job of Slurm or in pods; give one of them."
        )
    if image and not (kubernetes or for_kubernetes):
        raise UsageError("--image: only pods have an image; give --kubernetes, too.")
    overrides = [Override("--image", ("kubernetes", "image"), image)] if image else []
    overrides += [
        *_flag_overrides(name, no_preload, flags),
        *_pair_overrides(jobs, env),
        *_program_overrides(program, module),
    ]
    if path is None and not program:
        path = default_file()
    if for_kubernetes:
        return read_request(
            path, overrides, run_dir, rules=[check_for_kubernetes], find_hosts=refuse_hosts
        )
    if for_slurm:
        rules, nodes_of = [batch_system().check_file], batch_system().nodes_of
        return read_request(
            path, overrides, run_dir, rules=rules, nodes_of=nodes_of, array_task=array_task
        )
    if kubernetes:
        maker = host_maker("kubernetes")
        assert maker is not None
        return read_request(
            path, overrides, run_dir, rules=[check_for_pods], nodes_of=maker.hosts_of
        )
    return read_request(path, overrides, run_dir)


def _flag_overrides(name: str | None, no_preload: bool, flags: dict[str, object]) -> list[Override]:
    sync = flags["sync"]
    single = [
        ("--name", ("name",), name),
        ("-H", ("hosts",), flags["hosts"]),
        ("--hostfile", ("hostfile",), flags["hostfile"]),
        ("--ps", ("jobs", "ps", "count"), flags["ps"]),
        ("--workers", ("jobs", "worker", "count"), flags["workers"]),
        ("--replication", ("replication",), flags["replication"]),
        (
            "--sync" if sync else "--async",
            ("update",),
            None if sync is None else "sync" if sync else "async",
        ),
        ("--backup-workers", ("backup_workers",), flags["backup_workers"]),
        ("--max-staleness", ("max_staleness",), flags["max_staleness"]),
        ("--placement", ("placement", "policy"), flags["placement"]),
        ("--max-shard-bytes", ("placement", "max_shard_bytes"), flags["max_shard_bytes"]),
        ("--role-by", ("role_by",), flags["role_by"]),
        ("--ports", ("ports",), flags["ports"]),
        ("--metrics", ("metrics",), flags["metrics"]),
        ("--tensorboard", ("tensorboard",), flags["tensorboard"] or None),
        ("--python", ("python",), flags["python"]),
        ("--no-preload", ("preload",), False if no_preload else None),
    ]
    return [
        Override(_source(flag), path, value) for flag, path, value in single if value is not None
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
        job, _, count = text.partition("=")
        if not count.isdigit():
            raise UsageError(f"--job {text}: found no number of tasks; write it as --job chief=1.")
        overrides.append(Override("--job", ("jobs", job, "count"), int(count)))
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
