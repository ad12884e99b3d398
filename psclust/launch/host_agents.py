"""What `up` does on other hosts before it plans the run: ship files, start an agent on each
host, find their addresses."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from psclust.agent.lease import LOGIN_S, granted_s
from psclust.errors import PsclustError, UsageError
from psclust.forward.tls import PYTHON
from psclust.launch.footprints import record_footprints
from psclust.launch.missing_hosts import MissingHosts
from psclust.launch.up_request import UpRequest
from psclust.plan.encryption import is_encrypted, open_because
from psclust.plan.plan_inputs import RemoteHost
from psclust.plan.task_environment import library_environment, passed
from psclust.reach.ways import has_standing_agents, host_maker, may_be_here, tunnels_via
from psclust.rundir.agents_file import LiveAgents, read_agents, write_agents
from psclust.rundir.folder import RunFolder, agent_folder
from psclust.spec.cluster import LOCALHOST, Host
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.env_file import parse_env_file
from psclust.spec.plurals import counted
from psclust.spec.port_range import is_range
from psclust.spec.preload_limits import is_read
from psclust.spec.program_command import ProgramKind
from psclust.spec.user_files import read_text
from psclust.transport.fork_server_client import Load

if TYPE_CHECKING:
    from psclust.agent.process import AgentReply
    from psclust.control.bootstrap import AgentFolders, AgentSettings
    from psclust.control.certificates import Authority
    from psclust.control.supervisor_client import SupervisorClient
    from psclust.reach.connections import Connections
    from psclust.reach.python.host_facts import HostFacts
    from psclust.reach.python.host_pythons import HostPythons

_LOCAL = {LOCALHOST.name, "127.0.0.1"}


def other_hosts(file: ClusterFile) -> Sequence[Host]:
    """The hosts whose tasks agents run; none if all tasks run on this machine. Raises UsageError
    for a mixture: the other hosts could not reach tasks on 127.0.0.1."""
    if not may_be_here(file.reach_by):
        return file.hosts
    names = {host.name for host in file.hosts}
    local = names & (_LOCAL | {socket.gethostname()})
    if local == names:
        return ()
    if names & _LOCAL:
        here = ", ".join(sorted(names & _LOCAL))
        raise UsageError(
            f"hosts: {here} means another machine on every host; "
            "name this machine as the others reach it."
        )
    return file.hosts


def start_host_agents(
    request: UpRequest,
    folder: RunFolder,
    client: SupervisorClient,
    connections: Connections,
    say: Callable[[str], None],
    missing: MissingHosts | None = None,
) -> dict[str, RemoteHost]:
    """Start an agent on every host of `connections` and connect the supervisor to it; returns what
    the plan needs to know about each of these hosts. `say` gets lines for the user. missing: takes
    the hosts without which the run starts. Raises StartError with all failures together."""
    from psclust.control.bootstrap import (
        common_addresses,
        remote_hosts,
        start_agents,
    )
    from psclust.reach.python.host_pythons import HostPythons
    from psclust.reach.python.remote_command import candidates

    file = request.file
    if file.encrypt is None and (reason := open_because(file, request.layout)):
        say(f"what tasks send each other is not encrypted: {reason}")
    with HostPythons(connections, candidates(file.python)) as pythons:
        facts = _fit_hosts(pythons, _seen_here(request), missing)
        own = {host: each.address for host, each in facts.items() if each.address is not None}
        folders = {
            host: agent_folder(each.state, request.cluster.name, folder.id, host)
            for host, each in facts.items()
        }
        run = f"{request.cluster.name}.{folder.id}"
        if host_maker(file.reach_by) is None:
            # Before anything is left there.
            record_footprints(request.cluster, run, file, facts, folders)
            _record_agents(folder, file, facts)
        agent_folders = _agent_folders(pythons, request, facts, folders, run, say)
        settings = _settings(request, connections, agent_folders, own)
        replies = start_agents(
            pythons,
            agent_folders,
            settings,
            lambda access: client.add_agents([access]),
            _traffic(request, client) if is_encrypted(file, request.layout) else None,
            missing.add if missing is not None else None,
        )
        addresses = common_addresses(client, replies, settings)
    _say_slow_tls(replies, say)
    return remote_hosts(replies, agent_folders, addresses)


def _settings(
    request: UpRequest,
    connections: Connections,
    hosts: Iterable[str],
    own: Mapping[str, str],
) -> AgentSettings:
    """own: addresses that hosts give themselves."""
    from psclust.control.bootstrap import AgentSettings

    file = request.file
    return AgentSettings(
        name=request.cluster.name,
        lease_s=file.deadlines.lease,
        grace_s=file.lost_s,
        leave_s=file.leave_s,
        interface=file.interface,
        environ=_passed(file),
        warm=_loads(request, hosts),
        addresses={
            host: address
            for host in hosts
            if (address := own.get(host) or connections.address_of(host))
        },
        ports=file.ports if is_range(file.ports) else "auto",
        via=tunnels_via(file, connections.hosts),
        standing=has_standing_agents(file.reach_by),
        dials=file.program is None and not any(job.command for job in file.jobs.values()),
    )


def _traffic(request: UpRequest, client: SupervisorClient) -> Authority:
    """The authority of the run's forwarders, which its supervisor keeps for hosts that join."""
    from psclust.control.certificates import Authority

    kept = client.entrusted()
    if kept is not None:
        return Authority.from_pem(kept)
    authority = Authority(f"{request.cluster.name} traffic")
    client.entrust(authority.to_pem())
    return authority


def _say_slow_tls(replies: Mapping[str, AgentReply], say: Callable[[str], None]) -> None:
    slow = [host for host, reply in replies.items() if reply.tls == PYTHON]
    if slow:
        say(
            f"{', '.join(slow)}: TLS by {PYTHON}, which takes three times the CPU: psclust was "
            "installed without a C compiler, or there is no TensorFlow"
        )


def _record_agents(folder: RunFolder, file: ClusterFile, started: Collection[str]) -> None:
    """Of a run that is live already, beside those that it has."""
    keys, more_s = file.deadlines, LOGIN_S + file.lost_s
    agents = read_agents(folder) or LiveAgents(
        (), granted_s(keys.lease) + more_s, granted_s(keys.detached) + more_s, file.lost_s
    )
    there = {*started, *agents.hosts}
    hosts = tuple(host.name for host in file.hosts if host.name in there)
    write_agents(folder, replace(agents, hosts=hosts))


def _agent_folders(
    pythons: HostPythons,
    request: UpRequest,
    facts: Mapping[str, HostFacts],
    folders: Mapping[str, str],
    run: str,
    say: Callable[[str], None],
) -> dict[str, AgentFolders]:
    """Send what is missing; returns each host's folders of psclust, the program and the run."""
    from psclust.control.bootstrap import AgentFolders
    from psclust.reach.ship.ship_folder import ship
    from psclust.reach.ship.shipped_files import program_tree

    file, cwd = request.file, Path(request.launcher.cwd)
    shared = all(each.shared for each in facts.values())
    root = Path(file.ship) if file.ship else None if shared else cwd
    secrets = [Path(file.env_file)] if file.env_file else []
    tree = program_tree(root, without=secrets) if root else None
    shipped = ship(pythons, facts, tree, run)
    sent = sum(each.files for each in shipped.values())
    if sent:
        size = sum(each.size for each in shipped.values())
        say(
            f"sent {counted(sent, 'file')}, {size / 1e6:.1f} MB, to {counted(len(shipped), 'host')}"
        )
    below = os.path.relpath(cwd, root) if root and cwd.is_relative_to(root) else "."
    return {
        host: AgentFolders(
            each.psclust,
            os.path.normpath(os.path.join(each.program, below)) if each.program else str(cwd),
            folders[host],
        )
        for host, each in shipped.items()
    }


def _fit_hosts(
    pythons: HostPythons, files: Mapping[str, int], missing: MissingHosts | None
) -> dict[str, HostFacts]:
    """The facts about every host but those that are `missing`. Raises StartError with all problems
    of all hosts, failed log-ins among them."""
    from psclust.reach.doctor.finding import problems_of, refuse_problems
    from psclust.reach.doctor.quick_checks import quick
    from psclust.reach.python.host_facts import try_gather_facts

    outcomes = try_gather_facts(pythons, files)
    facts = {
        host: outcome for host, outcome in outcomes.items() if not isinstance(outcome, PsclustError)
    }
    failures = {
        **pythons.connections.failures,
        **{
            host: str(outcome)
            for host, outcome in outcomes.items()
            if isinstance(outcome, PsclustError)
        },
    }
    findings = quick(facts.values())
    if missing is None or not missing.may_be:
        refuse_problems(findings, list(dict.fromkeys(failures.values())))
        return facts
    unfit = {**problems_of(findings), **failures}
    missing.add(unfit)
    return {host: each for host, each in facts.items() if host not in unfit}


def _seen_here(request: UpRequest) -> dict[str, int]:
    """Modification times of the calling folder and the script, by which a host can tell whether it
    shares that folder."""
    program = request.file.program_command
    names = [
        request.launcher.cwd,
        *(
            [os.path.join(request.launcher.cwd, program.words[0])]
            if program.kind is ProgramKind.SCRIPT
            else []
        ),
    ]
    return {name: os.stat(name).st_mtime_ns // 1000 for name in names if os.path.exists(name)}


def _loads(request: UpRequest, hosts: Iterable[str]) -> dict[str, tuple[Load, ...]]:
    """Host -> the fork servers its tasks need that can be loaded before there is a plan. A host
    without tasks gets all, as any task may move there."""
    found: dict[str, dict[Load, None]] = {}
    common = library_environment(request.launcher).items()
    for entry in request.layout.jobs:
        first = request.first_tasks[entry.name]
        if first.preload is None or any(
            is_read(name, first.preload) for name, _ in first.env.items() - common
        ):
            continue
        for task in entry.tasks:
            found.setdefault(request.layout.hosts[task].name, {})[first.preload] = None
    every = dict.fromkeys(load for loads in found.values() for load in loads)
    return {host: tuple(found.get(host, every)) for host in hosts}


def _passed(file: ClusterFile) -> dict[str, str]:
    """The variables of this machine's environment that tasks on other hosts get."""
    path = file.env_file
    written = parse_env_file(read_text(Path(path)), path) if path is not None else {}
    return passed(os.environ, file.pass_env or [], written)
