"""Hosts that join and leave a live run: `psclust scale -H +e,f` and `-H -e`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from psclust.errors import PsclustError, UsageError
from psclust.launch.host_agents import other_hosts, start_host_agents
from psclust.launch.live_change import Change, LiveRun, change_run, request_of
from psclust.launch.missing_hosts import are_given
from psclust.rundir.agents_file import keep_agents, read_agents
from psclust.spec.cluster import Host
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.host_lists import parse_hosts

if TYPE_CHECKING:
    from psclust.control.supervisor_client import SupervisorClient
    from psclust.reach.connections import Connections

_FLAG = "-H"


@dataclass(frozen=True, slots=True)
class HostChange:
    """Hosts to add, and the names of those to leave out."""

    added: tuple[Host, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


SAME_HOSTS = HostChange()


def parse_host_change(texts: Sequence[str]) -> HostChange:
    """`+e,f:2` and `-e`. Raises UsageError."""
    change = SAME_HOSTS
    for text in texts:
        if text[:1] not in ("+", "-"):
            raise UsageError(
                f"{_FLAG} {text}: write {_FLAG} +{text} to add hosts, or {_FLAG} -{text} to leave "
                "them out."
            )
        hosts = parse_hosts(text[1:], where=f"{_FLAG} {text}")
        if text.startswith("+"):
            change = replace(change, added=(*change.added, *hosts))
        else:
            names = tuple(host.name for host in hosts)
            change = replace(change, removed=(*change.removed, *names))
    return change


def taken_back(run: LiveRun, change: HostChange) -> LiveRun:
    """The run, with the hosts that it had lost and that join it again. Only an elastic one can go
    on with them beside tasks that have moved."""
    names = {host.name for host in change.added}
    returning = tuple(host for host in run.plan.lost if host in names and run.file.is_elastic)
    return replace(run, returning=returning)


def with_hosts(run: LiveRun, change: HostChange) -> ClusterFile:
    """The file of the run with other hosts, on which its tasks need not fit. Raises UsageError."""
    file, name = run.file, run.cluster.name
    there = [host.name for host in file.hosts]
    if not other_hosts(file):
        raise UsageError(
            f"{_FLAG}: {name} runs on this machine alone. End it (psclust down {name}), and start "
            f"it on hosts (psclust up {_FLAG})."
        )
    if are_given(file) and not run.returning:
        raise UsageError(
            f"{_FLAG}: the hosts of {name} were given to it ({file.reach_by}), so it keeps them."
        )
    for host in change.added:
        if host.name in run.lost:
            raise UsageError(f"{_FLAG} +{host.name}: lost by this run, which goes on without it.")
        if host.name in there and host.name not in run.returning:
            raise UsageError(f"{_FLAG} +{host.name}: is a host of {name} already.")
    for removed in change.removed:
        if removed not in there:
            raise UsageError(
                f"{_FLAG} -{removed}: is no host of {name}; it has {', '.join(there)}."
            )
    other = {*change.removed, *(host.name for host in change.added)}
    hosts = [host for host in file.hosts if host.name not in other]
    # With other hosts and counts the default may be another one.
    encrypt = any(host.forwarder for host in run.inputs.remote_hosts.values())
    changed = file.model_copy(update={"hosts": [*hosts, *change.added], "encrypt": encrypt})
    if not changed.hosts:
        raise UsageError(f"{_FLAG}: no host would be left; end the run (psclust down {name}).")
    return changed


def change_with_hosts(
    run: LiveRun,
    file: ClusterFile,
    client: SupervisorClient,
    connections: Connections,
    say: Callable[[str], None],
) -> Change | None:
    """See `change_run`: with agents on the hosts of `connections`, which join the run. Agents whose
    hosts cannot be used after all do not stay. `say` gets lines for the user."""
    try:
        request = request_of(run, file)
        joined = start_host_agents(request, run.folder, client, connections, say)
        return change_run(run, file, client, joined)
    except PsclustError:
        let_hosts_go(run, connections.names, client)
        raise


def let_hosts_go(run: LiveRun, hosts: Sequence[str], client: SupervisorClient) -> None:
    """End their agents. Raises UsageError while tasks are there."""
    client.remove_agents(hosts)
    agents = read_agents(run.folder)
    if agents is not None:
        keep_agents(run.folder, [host for host in agents.hosts if host not in hosts])
