"""The part of `up` that happens on other hosts before anything is planned: log in, start an agent on each, find their addresses."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import psclust
from psclust.cli import output
from psclust.cli.options import UpRequest
from psclust.errors import UsageError
from psclust.plan.build import Place
from psclust.plan.environment import Site
from psclust.rundir.folder import RunFolder, write_atomically
from psclust.spec.cluster import LOCALHOST, Host
from psclust.spec.schema import ClusterFile

if TYPE_CHECKING:
    from psclust.agent.client import AgentClient

_LOCAL = {LOCALHOST.name, "127.0.0.1"}


def other_hosts(file: ClusterFile) -> Sequence[Host]:
    """The hosts whose tasks agents run; none where all tasks are processes of this machine. Raises UsageError for a mixture: what is on
    this machine would be reached at an address that means another machine everywhere else."""
    names = {host.name for host in file.hosts}
    local = names & (_LOCAL | {socket.gethostname()})
    if local == names:
        return ()
    if names & _LOCAL:
        here = ", ".join(sorted(names & _LOCAL))
        raise UsageError(f"hosts: {here} means another machine on every host; name this machine as the others reach it, by SSH as well.")
    return file.hosts


def bring_up(request: UpRequest, folder: RunFolder, client: AgentClient, hosts: Sequence[Host]) -> dict[str, Place]:
    """An agent on every host, in the supervisor's hands; what planning must know of each. Raises StartError with all failures together."""
    from psclust.agent.bootstrap import Home, Order, common_addresses, places, start_agents
    from psclust.transport.ssh import SshHosts

    file = request.file
    output.say(f"logging in to {len(hosts)} host{'s' * (len(hosts) > 1)}")
    with SshHosts(hosts) as ssh:
        homes = {host.name: Home(file.python or sys.executable, str(Path(psclust.__file__).parents[1]), os.getcwd()) for host in hosts}
        order = Order(
            name=request.cluster.name,
            run=folder.id,
            lease_s=file.deadlines.lease,
            grace_s=file.deadlines.stop,
            interface=file.interface,
            environ={},
            warm=(),
        )
        replies = start_agents(ssh, homes, order, lambda access: client.connect([access]))
        addresses = common_addresses(client, replies, file.interface)
    found = places(replies, homes, addresses)
    write_places(folder, found)
    return found


def write_places(folder: RunFolder, found: Mapping[str, Place]) -> None:
    """For a second `up` and for `plan`."""
    write_atomically(folder.hosts, json.dumps({name: asdict(place) for name, place in found.items()}, indent=1))


def read_places(folder: RunFolder) -> dict[str, Place]:
    """What `write_places` wrote; nothing for a run on this machine."""
    try:
        data = json.loads(folder.hosts.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return {name: Place(Site(**place["site"]), place["folder"], place["address"]) for name, place in data.items()}
