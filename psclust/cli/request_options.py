"""The options of `up` and `plan`, and the request they make: a cluster file with flags laid over it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from psclust.cli.common_options import run_dir_option
from psclust.cli.completions import files, values
from psclust.errors import UsageError
from psclust.launch.submission import check_for_slurm
from psclust.launch.up_request import DEFAULT_FILES, UpRequest, default_file, read_request
from psclust.placement.policies import BALANCED, POLICIES, render_policies
from psclust.reach.ways import MAKERS, batch_system
from psclust.spec.jobs import BETWEEN_GRAPH, COORDINATOR, IN_GRAPH
from psclust.spec.kubernetes_checks import check_for_kubernetes, check_for_pods, refuse_hosts
from psclust.spec.load import Override

_F = TypeVar("_F", bound=Callable[..., Any])


_VARIABLES = "PSCLUST_UP_"
_OPTIONS = (
    click.option(
        "-f",
        "--file",
        "path",
        metavar="FILE",
        shell_complete=files,
        help=f"The cluster file (default: {' or '.join(DEFAULT_FILES)} here).",
    ),
    click.option("-H", "--hosts", metavar="HOSTS", help="Hosts such as a,b:4,user@c:2,node[01-04]; slurm; local."),
    click.option("--hostfile", metavar="FILE", shell_complete=files, help="A file of hosts, one a line (`host slots=4`)."),
    click.option("--name", help="The cluster's name (default: the file's, else the folder's)."),
    click.option("--ps", type=int, metavar="N", help="Number of ps tasks (default: the file's, or 1)."),
    click.option("--workers", type=int, metavar="N", help="Number of worker tasks (default: the file's, or 2)."),
    click.option("--job", "jobs", multiple=True, metavar="JOB=N", help="Number of tasks of any other job, for example chief=1."),
    click.option(
        "--replication",
        metavar="KIND",
        shell_complete=values(IN_GRAPH, BETWEEN_GRAPH, COORDINATOR),
        help="in-graph, between-graph (default), or coordinator for a script.",
    ),
    click.option("--sync/--async", "sync", default=None, help="How workers update the variables (default: --async)."),
    click.option("--backup-workers", type=int, metavar="N", help="--sync: a step waits for all gradients but N (default: 0)."),
    click.option("--max-staleness", type=int, metavar="N", help="--async: a worker more than N steps ahead of the slowest waits."),
    click.option(
        "--placement",
        metavar="POLICY",
        shell_complete=values(*POLICIES),
        help=f"Which ps holds a variable: {render_policies()}. Default: {BALANCED}.",
    ),
    click.option(
        "--max-shard-bytes",
        metavar="SIZE",
        help="Partition larger variables into shards, such as 8MB (default: none).",
    ),
    click.option(
        "--role-by",
        metavar="HOW",
        shell_complete=values("auto", "flags", "tf_config", "none"),
        help="How a script gets its role: auto (default), flags, tf_config, none.",
    ),
    click.option("--ports", metavar="PORTS", help="auto (default), a first port, or a range such as 2300-2399."),
    click.option("--metrics", metavar="[ADDRESS:]PORT", help="Serve metrics to Prometheus there (address: 127.0.0.1)."),
    click.option("--tensorboard", is_flag=True, default=None, help="Show a psclust program's summaries in TensorBoard, here."),
    click.option("--env", "env", multiple=True, metavar="NAME=VALUE", help="A variable for every task."),
    click.option("--python", metavar="PYTHON", shell_complete=files, help="The tasks' interpreter (default: this one)."),
    click.option("--no-preload", is_flag=True, help="Execute programs plainly, not from a process that has imported TensorFlow."),
    click.option("-m", "module", is_flag=True, help="PROGRAM is a module, as in `python -m`."),
    run_dir_option,
    click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="[PROGRAM [ARGS...]]", shell_complete=files),
)
_KUBERNETES_OPTIONS = (
    click.option("--kubernetes", is_flag=True, help="In pods that psclust makes for this run, one for each task."),
    click.option("--image", metavar="IMAGE", help="With --kubernetes: the image of all pods (default: the file's kubernetes.image)."),
)
REQUEST_CONTEXT = {"allow_interspersed_args": False}


def request_options(function: _F) -> _F:
    """The options, each also from a variable: `--max-shard-bytes` from PSCLUST_UP_MAX_SHARD_BYTES."""
    for option in reversed(_OPTIONS):
        function = option(function)
    for parameter in function.__click_params__:  # type: ignore[attr-defined]
        if isinstance(parameter, click.Option):
            parameter.envvar = f"{_VARIABLES}{max(parameter.opts, key=len).lstrip('-').replace('-', '_').upper()}"
    return function


def kubernetes_options(function: _F) -> _F:
    for option in reversed(_KUBERNETES_OPTIONS):
        function = option(function)
    return function


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
        raise UsageError("--slurm and --kubernetes: a run is in a job of Slurm or in pods; give one of them.")
    if image and not (kubernetes or for_kubernetes):
        raise UsageError("--image: only pods have an image; give --kubernetes, too.")
    overrides = [Override("--image", ("kubernetes", "image"), image)] if image else []
    overrides += [*_flag_overrides(name, no_preload, flags), *_pair_overrides(jobs, env), *_program_overrides(program, module)]
    if path is None and not program:
        path = default_file()
    if for_kubernetes:
        return read_request(path, overrides, run_dir, rules=[check_for_kubernetes], find_hosts=refuse_hosts)
    if for_slurm:
        rules, nodes_of = [check_for_slurm], batch_system().nodes_of
        return read_request(path, overrides, run_dir, rules=rules, nodes_of=nodes_of, array_task=array_task)
    if kubernetes:
        return read_request(path, overrides, run_dir, rules=[check_for_pods], nodes_of=MAKERS["kubernetes"]().hosts_of)
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
        ("--sync" if sync else "--async", ("update",), None if sync is None else "sync" if sync else "async"),
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
    return [Override(_source(flag), path, value) for flag, path, value in single if value is not None]


def _source(flag: str) -> str:
    """`flag`, or the variable that has set it."""
    context = click.get_current_context(silent=True)
    for parameter in context.command.params if context else ():
        if flag in (*parameter.opts, *parameter.secondary_opts) and parameter.name is not None and context is not None:
            from_variable = context.get_parameter_source(parameter.name) is ParameterSource.ENVIRONMENT
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
    return [Override("PROGRAM", ("program",), first), Override("PROGRAM", ("args",), list(program[1:]))]
