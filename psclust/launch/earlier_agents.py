"""Agents of earlier runs of a cluster that have lost their supervisor: their tasks go on until a
lease ends, and must end before the same tasks start again."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from psclust.errors import StartError
from psclust.launch.footprints import on_hosts_of, recorded_footprints
from psclust.rundir.agents_file import LiveAgents, keep_agents, mark_dead, read_agents
from psclust.rundir.folder import ClusterFolder, RunFolder

if TYPE_CHECKING:
    from psclust.reach.python.host_python import HostPython

_ANSWER_S = 60.0  # for a host to log in to, and to end an agent beside the grace of its tasks
_LONGEST_WAIT_S = 120.0
_POLL_S = 0.1


def end_earlier_agents(
    cluster: ClusterFolder, runs: Collection[RunFolder], say: Callable[[str], None]
) -> None:
    """End what the agents of these runs have left, or wait until it has ended by itself where a
    host cannot be reached; `say` gets lines for the user. The runs have no supervisor any more.
    Raises StartError for a host that would have to be waited for too long."""
    for run in runs:
        agents = read_agents(run)
        if agents is not None:
            agents = mark_dead(run, time.time()) or agents
            _end_agents(cluster, run, agents, say)


def _end_agents(
    cluster: ClusterFolder, run: RunFolder, agents: LiveAgents, say: Callable[[str], None]
) -> None:
    recorded = recorded_footprints(cluster).get(f"{cluster.name}.{run.id}", {})
    footprints = {host: recorded[host] for host in agents.hosts if host in recorded}
    say(
        f"psclust: {cluster.name}: an earlier run lost its supervisor; "
        f"ending what it has left on {agents.names}"
    )

    def end(host: str, python: HostPython) -> list[int]:
        record = str(RunFolder(Path(footprints[host]["folder"])).agent_process)
        question = {"record": record, "grace_s": agents.grace_s}
        return list(
            python.ask("end_agent", question, timeout_s=agents.grace_s + _ANSWER_S)["alive"]
        )

    outcomes = on_hosts_of(cluster.name, footprints, end)
    left = {
        host: outcome if isinstance(outcome, str) else f"process {outcome[0]} is alive"
        for host, outcome in outcomes.items()
        if outcome
    }
    keep_agents(run, left)
    if left:
        _wait(cluster, run, agents, left, say)


def _wait(
    cluster: ClusterFolder,
    run: RunFolder,
    agents: LiveAgents,
    left: Mapping[str, str],
    say: Callable[[str], None],
) -> None:
    until = (agents.ended or time.time()) + agents.lasts_s
    why = "; ".join(left.values())
    left_s = until - time.time()
    if left_s > _LONGEST_WAIT_S:
        end = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(until))
        raise StartError(
            f"{cluster.name}: tasks of run {run.id}, which has lost its supervisor, may be alive "
            f"on {', '.join(left)} until {end} ({why}). Make those hosts reachable and try again, "
            "or start this one under another --name with another --model-dir."
        )
    if left_s > 0:
        say(
            f"psclust: {cluster.name}: {why}; "
            f"waiting {left_s:.0f} s until the tasks of the earlier run there have ended"
        )
    while time.time() < until:
        time.sleep(min(_POLL_S, max(0.0, until - time.time())))
    keep_agents(run, ())
