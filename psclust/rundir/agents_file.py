"""Which agents of a run may still have tasks: written before they start, and gone when all have
stopped. After a supervisor was killed it names the hosts where tasks go on, and for how long."""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

from psclust.errors import StartError
from psclust.rundir.atomic_file import write_required
from psclust.rundir.folder import RunFolder
from psclust.spec.typed_json import build, parse_json


@dataclass(frozen=True, slots=True)
class LiveAgents:
    """hosts: of the agents. lasts_s: how long the tasks of one go on, at most, when it has lost its
    supervisor; detached_s: the same once the run is detached. grace_s: what an agent gives its
    tasks between TERM and KILL. ended: when the supervisor is known to have died, in seconds since
    1970."""

    hosts: tuple[str, ...]
    lasts_s: float
    detached_s: float
    grace_s: float = 10.0
    ended: float | None = None

    @property
    def names(self) -> str:
        return ", ".join(self.hosts)


def read_agents(folder: RunFolder) -> LiveAgents | None:
    """None where no agent can have tasks."""
    try:
        return build(LiveAgents, parse_json(folder.agents.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None


def write_agents(folder: RunFolder, agents: LiveAgents) -> None:
    """Raises StartError."""
    write_required(folder.agents, json.dumps(asdict(agents)))


def keep_agents(folder: RunFolder, hosts: Collection[str]) -> None:
    """The agents of all but these hosts have stopped."""
    agents = read_agents(folder)
    left = tuple(host for host in agents.hosts if host in hosts) if agents else ()
    if agents is None or not left:
        folder.agents.unlink(missing_ok=True)
    else:
        _rewrite(folder, replace(agents, hosts=left))


def mark_detached(folder: RunFolder) -> None:
    """The run outlives its `psclust up`, and so does each agent without a supervisor for longer."""
    agents = read_agents(folder)
    if agents is not None:
        _rewrite(folder, replace(agents, lasts_s=agents.detached_s))


def mark_dead(folder: RunFolder, now: float) -> LiveAgents | None:
    """The supervisor is dead since `now` at the latest; returns the agents that have lost it."""
    agents = read_agents(folder)
    if agents is not None and agents.ended is None:
        agents = replace(agents, ended=now)
        _rewrite(folder, agents)
    return agents


def _rewrite(folder: RunFolder, agents: LiveAgents) -> None:
    # On a full disk the file stays as it was.
    with suppress(StartError):
        write_agents(folder, agents)
