"""srun, inside an allocation, as a way to reach its nodes: see `psclust.reach.connections.Way`."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from psclust.reach.connections import Progress, WayOption
from psclust.reach.slurm import sbatch
from psclust.reach.slurm.allocation import find_allocation, srun_environment
from psclust.spec.cluster import Host
from psclust.spec.found_hosts import FoundHosts

if TYPE_CHECKING:
    from psclust.reach.batch_jobs import BatchSystem
    from psclust.reach.slurm.nodes import SlurmNodes
    from psclust.reach.slurm.srun_tunnel import SrunTunnel
    from psclust.spec.cluster_file import ClusterFile

# Slurm signals all that a batch script has started, but not what is in a step of its own: on the
# node where `up` runs there is an agent, too.
MAY_BE_HERE = False
# A standing agent is no part of an allocation: an agent must stay in the step that Slurm gave it.
STANDING_AGENTS = False
CONNECTION_VARIABLE: str | None = None
OPTIONS: Sequence[WayOption] = (
    WayOption(
        "--slurm",
        {
            "up": "Submit it to Slurm as a job, from a login node, and return.",
            "plan": "Show the script that `up --slurm` would submit, and ask Slurm whether it "
            "takes it.",
        },
        "in a job of Slurm",
    ),
)


def find_hosts(environ: Mapping[str, str], *, asked: bool) -> FoundHosts | None:
    allocation = find_allocation(environ, asked=asked)
    return allocation.found_hosts() if allocation else None


def batch_system() -> BatchSystem:
    return sbatch


def host_maker() -> None:
    return None


def connect(
    file: ClusterFile, hosts: Sequence[Host], *, partial: bool, progress: Progress | None
) -> SlurmNodes:
    from psclust.reach.python.remote_command import candidates
    from psclust.reach.slurm.nodes import SlurmNodes

    allocation = find_allocation(os.environ, asked=True)
    assert allocation is not None
    return SlurmNodes(
        allocation,
        hosts,
        candidates(file.python),
        file.slurm.srun,
        partial=partial,
        noticed=_signal_this_process,
    )


def tunnel_settings(file: ClusterFile) -> Mapping[str, Any] | None:
    return {} if file.tunnel else None


def open_tunnel(host: Host, target: tuple[str, int], settings: Mapping[str, Any]) -> SrunTunnel:
    from psclust.reach.python.remote_command import candidates
    from psclust.reach.slurm.nodes import srun_line
    from psclust.reach.slurm.srun_tunnel import SrunTunnel

    allocation = find_allocation(os.environ, asked=True)
    assert allocation is not None
    return SrunTunnel(
        srun_line(allocation, allocation.node(host.name), ()),
        srun_environment(os.environ, allocation.job),
        candidates(None),
        target,
    )


def _signal_this_process(name: str) -> None:
    """Before the end of an allocation Slurm signals its steps; the process that can react to that
    is the one that started them."""
    if callable(signal.getsignal(signal.SIGUSR1)):
        os.kill(os.getpid(), signal.SIGUSR1)
