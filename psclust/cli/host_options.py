"""The hosts of `exec` and `doctor`, and logging in to them with progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from psclust.cli import output
from psclust.errors import UsageError
from psclust.launch.default_file import DEFAULT_FILES, default_file, default_name
from psclust.launch.program_sources import suited_to_script
from psclust.reach.ways import find_hosts, host_maker
from psclust.spec.cluster import Host
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.found_hosts import HOST_WORDS, this_machine
from psclust.spec.host_lists import parse_hostfile, parse_hosts
from psclust.spec.load import Override, load
from psclust.spec.plurals import counted
from psclust.spec.user_files import read_text

if TYPE_CHECKING:
    from psclust.reach.connections import Connections

_F = TypeVar("_F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "-f",
        "--file",
        "path",
        metavar="FILE",
        help=f"The cluster file (default: {' or '.join(DEFAULT_FILES)} here).",
    ),
    click.option(
        "-H",
        "--hosts",
        metavar="HOSTS",
        help=f"Hosts such as a,b,user@c,node[01-04]; {'; '.join(reversed(HOST_WORDS))}.",
    ),
    click.option("--hostfile", metavar="FILE", help="A file of hosts, one a line."),
)


def host_options(function: _F) -> _F:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def read_hosts(
    path: str | None, hosts: str | None, hostfile: str | None, *, way: str | None = None
) -> ClusterFile:
    """The cluster file, or the defaults if there is none, with the hosts that are meant: flags win.
    `way`: has made the hosts of the live run, which are meant. Raises ClusterFileError with every
    mistake."""
    path = default_file() if path is None else path
    maker = host_maker(way) if way is not None else None
    if maker is not None and (hosts is not None or hostfile is not None):
        raise UsageError(
            f"--{way}: the hosts are the {maker.HOSTS} of the run; remove -H and --hostfile."
        )
    listed = None
    if hosts is not None and hosts not in HOST_WORDS:
        listed = parse_hosts(hosts, where="-H")
    elif hosts is None and hostfile is not None:
        listed = parse_hostfile(read_text(Path(hostfile)), where=hostfile)
    flags = [Override("-H", ("hosts",), hosts)] if hosts in HOST_WORDS else []
    # Without a file no tasks are meant, and the default ones need not fit on the hosts.
    flags += [Override("jobs", ("jobs",), {"worker": 1})] if path is None and not maker else []
    found = find_hosts if listed is None else this_machine
    file = load(
        Path(path) if path else None,
        flags,
        default_name=default_name(path),
        rules=[maker.check_file] if maker else (),
        find_hosts=maker.hosts_of if maker else found,
        suit=suited_to_script,
    )
    return file if listed is None else file.model_copy(update={"hosts": listed})


@contextmanager
def logged_in(file: ClusterFile, hosts: Sequence[Host]) -> Iterator[Connections]:
    """Connections to the hosts that are reached; a line at the bottom of a terminal shows the
    progress. Raises StartError."""
    from psclust.reach.ways import connect

    view = output.LiveView()

    def progress(done: int, count: int, name: str) -> None:
        view.footer(f"logging in: {done} of {counted(count, 'host')}")

    try:
        with connect(file, hosts, partial=True, progress=progress) as connections:
            view.close()
            yield connections
    finally:
        view.close()
