"""The options of `up` and `plan`. `psclust.cli.request` makes a request of them; it loads the
reader of cluster files, which help texts do without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from psclust.cli.common_options import run_dir_option
from psclust.cli.completions import files, values
from psclust.launch.default_file import DEFAULT_FILES
from psclust.placement.policies import POLICIES, ROUND_ROBIN, render_policies
from psclust.spec.found_hosts import HOST_WORDS
from psclust.spec.jobs import BETWEEN_GRAPH, COORDINATOR, IN_GRAPH

_F = TypeVar("_F", bound=Callable[..., Any])


_VARIABLES = "PSCLUST_UP_"
_WORDS = "; ".join(reversed(HOST_WORDS))
_OPTIONS = (
    click.option(
        "-f",
        "--file",
        "path",
        metavar="FILE",
        shell_complete=files,
        help=f"The cluster file (default: {' or '.join(DEFAULT_FILES)} here).",
    ),
    click.option(
        "-H",
        "--hosts",
        metavar="HOSTS",
        help=f"Hosts such as a,b:4,user@c:2,node[01-04]; {_WORDS}.",
    ),
    click.option(
        "--hostfile",
        metavar="FILE",
        shell_complete=files,
        help="A file of hosts, one a line (`host slots=4`).",
    ),
    click.option("--name", help="The cluster's name (default: the file's, else the folder's)."),
    click.option(
        "--ps", type=int, metavar="N", help="Number of ps tasks (default: the file's, or 1)."
    ),
    click.option(
        "--workers",
        metavar="N",
        help="Number of worker tasks (default: the file's, or 2). 2:16, with --input handed_out: "
        "at least 2, at most 16, as many as there is room for.",
    ),
    click.option(
        "--job",
        "jobs",
        multiple=True,
        metavar="JOB=N",
        help="Number of tasks of any other job, for example chief=1.",
    ),
    click.option(
        "--replication",
        metavar="KIND",
        shell_complete=values(IN_GRAPH, BETWEEN_GRAPH, COORDINATOR),
        help="in-graph, between-graph (default), or coordinator for a script.",
    ),
    click.option(
        "--sync/--async",
        "sync",
        default=None,
        help="How workers update the variables (default: --async).",
    ),
    click.option(
        "--backup-workers",
        type=int,
        metavar="N",
        help="--sync: a step waits for all gradients but N (default: 0).",
    ),
    click.option(
        "--max-staleness",
        type=int,
        metavar="N",
        help="--async: a worker more than N steps ahead of the slowest waits.",
    ),
    click.option(
        "--input",
        metavar="HOW",
        shell_complete=values("sharded", "handed_out"),
        help="How workers share the data: sharded (default), or handed_out, so that they may join "
        "and leave (psclust scale).",
    ),
    click.option(
        "--placement",
        metavar="POLICY",
        shell_complete=values(*POLICIES),
        help=f"Which ps holds a variable: {render_policies()}. Default: {ROUND_ROBIN}.",
    ),
    click.option(
        "--max-shard-bytes",
        metavar="SIZE",
        shell_complete=values("auto", "none"),
        help="Partition larger variables into shards: auto (default), none, or a size such as 8MB.",
    ),
    click.option(
        "--role-by",
        metavar="HOW",
        shell_complete=values("auto", "flags", "tf_config", "none"),
        help="How a script gets its role: auto (default), flags, tf_config, none.",
    ),
    click.option(
        "--ports",
        metavar="PORTS",
        help="auto (default), a first port, or a range such as 2300-2399.",
    ),
    click.option(
        "--encrypt/--no-encrypt",
        "encrypt",
        default=None,
        help="On other hosts: whether what tasks send each other travels under TLS.",
    ),
    click.option(
        "--admit",
        metavar="ADDRESSES",
        help="Who else may connect to servers, such as 10.0.0.7,10.1.0.0/16; all: everybody.",
    ),
    click.option(
        "--metrics",
        metavar="[ADDRESS:]PORT",
        help="Serve metrics to Prometheus there (address: 127.0.0.1).",
    ),
    click.option(
        "--tensorboard",
        is_flag=True,
        default=None,
        help="Show a psclust program's summaries in TensorBoard, here.",
    ),
    click.option(
        "--env", "env", multiple=True, metavar="NAME=VALUE", help="A variable for every task."
    ),
    click.option(
        "--python",
        metavar="PYTHON",
        shell_complete=files,
        help="The tasks' interpreter (default: this one).",
    ),
    click.option(
        "--no-preload",
        is_flag=True,
        help="Execute programs plainly, not from a process that has imported TensorFlow.",
    ),
    click.option("-m", "module", is_flag=True, help="PROGRAM is a module, as in `python -m`."),
    run_dir_option,
    click.argument(
        "program",
        nargs=-1,
        type=click.UNPROCESSED,
        metavar="[PROGRAM [ARGS...]]",
        shell_complete=files,
    ),
)
REQUEST_CONTEXT = {"allow_interspersed_args": False}


def request_options(function: _F) -> _F:
    """The options, each also from a variable: `--max-shard-bytes` from
    PSCLUST_UP_MAX_SHARD_BYTES."""
    for option in reversed(_OPTIONS):
        function = option(function)
    for parameter in function.__click_params__:  # type: ignore[attr-defined]
        if isinstance(parameter, click.Option):
            parameter.envvar = (
                f"{_VARIABLES}{max(parameter.opts, key=len).lstrip('-').replace('-', '_').upper()}"
            )
    return function
