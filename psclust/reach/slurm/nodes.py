"""Connections to the nodes of an allocation: a step of its own for each command."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from psclust.errors import HostError
from psclust.reach.listed_hosts import ListedHosts
from psclust.reach.python.remote_command import NO_PYTHON
from psclust.reach.slurm import on_node
from psclust.reach.slurm.allocation import Allocation, Node, node_records, srun_environment
from psclust.reach.slurm.step import Step
from psclust.spec.cluster import Host

# $1: Python source. $2, $3: its arguments. The others: interpreters, of which the first that exists
# runs it.
_FIRST = (
    'own=$1 first=$2 second=$3; shift 3; for p; do case $p in "~/"*) p=$HOME/${p#"~/"};; esac; '
    f'if command -v "$p" >/dev/null 2>&1; then exec "$p" -S -E -c "$own" "$first" $second; fi; '
    f"done; exit {NO_PYTHON}"
)
_GONE = (
    "DOWN",
    "FAIL",
    "POWERED_DOWN",
    "NOT_RESPONDING",
    "*",
)  # of a node's State; * marks one that does not answer


def python_line(source: str, arguments: Sequence[str], interpreters: Sequence[str]) -> list[str]:
    """The end of srun's command line that runs Python `source` with two arguments, of which the
    second may be empty, but holds no blank."""
    return ["--chdir=/", "sh", "-c", _FIRST, "sh", source, *arguments, *interpreters]


def srun_line(allocation: Allocation, node: Node, options: Sequence[str]) -> list[str]:
    """The beginning of the command line of a step on a node. The step shares CPUs and memory with
    all others there: without --overlap it would wait for them."""
    return [
        "srun",
        f"--jobid={allocation.job}",
        *([f"--het-group={node.group}"] if node.group is not None else []),
        *(
            "--overlap",
            "--nodes=1",
            "--ntasks=1",
            f"--nodelist={node.name}",
            "--unbuffered",
            "--cpu-bind=none",
            "--mpi=none",
        ),
        "--job-name=psclust",
        *options,
    ]


class SlurmNodes(ListedHosts):
    """`Connections` by srun. interpreters: of which a node has one. options: further ones of srun.
    noticed: see Step."""

    def __init__(
        self,
        allocation: Allocation,
        hosts: Sequence[Host],
        interpreters: Sequence[str],
        options: Sequence[str],
        *,
        partial: bool,
        noticed: Callable[[str], None],
    ) -> None:
        super().__init__("srun", hosts, partial=partial)
        self._allocation = allocation
        self._interpreters, self._options = tuple(interpreters), tuple(options)
        self._noticed = noticed
        self._environ = srun_environment(os.environ, allocation.job)

    def start(self, host: str, command: str, purpose: str, *, outlived: bool = False) -> Step:
        """See `Connections.start`."""
        words = ["sh", "-c", command]
        if outlived:
            source = Path(on_node.__file__).read_text(encoding="utf-8")
            words = python_line(source, [command, ""], self._interpreters)
        srun = srun_line(self._allocation, self._allocation.node(host), self._options)
        return Step(host, [*srun, *words], self._environ, purpose, self._noticed)

    def _look_up(self) -> Callable[[str], str]:
        there = {node.name for node in self._allocation.nodes}
        records = node_records([host.name for host in self.hosts if host.name in there], os.environ)
        return lambda name: self._address(name, records.get(name, {}))

    def _address(self, name: str, record: Mapping[str, str]) -> str:
        """Raises HostError."""
        self._allocation.node(name)
        state = record.get("State", "")
        if any(word in state for word in _GONE):
            raise HostError(
                f"{name}: Slurm says that the node is {state}. Leave it out of `hosts`, "
                "or ask for another allocation."
            )
        address = record.get("NodeAddr", name)
        try:
            return str(socket.getaddrinfo(address, None, socket.AF_INET)[0][4][0])
        except OSError:
            raise HostError(
                f"{name}: no IPv4 address is known here for {address}, "
                "the address that Slurm has for it."
            ) from None
