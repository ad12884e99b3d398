"""Agents on the hosts of a cluster: started over SSH, handed to the supervisor, and asked at which addresses they reach each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from psclust.agent.access import AgentAccess
from psclust.agent.process import AgentReply, AgentRequest
from psclust.control.certificates import Authority
from psclust.errors import HostError, StartError
from psclust.plan.build_plan import RemoteHost
from psclust.plan.task_environment import HostEnvironment
from psclust.reach.fan_out import all_or_error, fan_out, on_each
from psclust.reach.python.host_pythons import HostPythons
from psclust.reach.python.remote_command import AGENT
from psclust.rundir.log_tail import last_line
from psclust.supervise.exit_code import describe_exit
from psclust.transport.fork_server_client import Load

_START_S = 60.0
_PARALLEL = 32


@dataclass(frozen=True)
class AgentFolders:
    """Where an agent lives on its host: the folder that psclust was shipped to (None: it is installed there), the program's, and the
    run's."""

    package: str | None
    cwd: str
    folder: str


@dataclass(frozen=True)
class AgentSettings:
    """What all agents of a run are told. lease_s, grace_s: seconds. environ: for all tasks, secrets perhaps. warm: what each host
    should load at once. addresses: each host's own end of its SSH connection.
    ports: auto, or the range that tasks are to have. via: the hosts whose agents are dialled through a tunnel, with how to open it
    (`psclust.reach.ways.tunnel_via`)."""

    name: str
    lease_s: float
    grace_s: float
    interface: str | None
    environ: Mapping[str, str]
    warm: Mapping[str, Sequence[Load]]
    addresses: Mapping[str, str]
    ports: str = "auto"
    via: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class AddressProbe(Protocol):
    """What is asked of a supervisor that has the agents (`SupervisorClient`)."""

    def listen(self, host: str, addresses: Sequence[str], ports: str) -> list[str]: ...

    def probe(self, addresses: Sequence[str]) -> dict[str, list[str]]: ...


def start_agents(
    pythons: HostPythons, folders: Mapping[str, AgentFolders], settings: AgentSettings, took: Callable[[AgentAccess], None]
) -> dict[str, AgentReply]:
    """Starts an agent on every host of `folders`, all at once; `took` is called with each as soon as it can be dialled. Raises StartError
    with a line for each that could not be started."""
    authority = Authority(settings.name)
    launcher = authority.launcher()

    def start(host: str) -> AgentReply:
        request = AgentRequest(
            host=host,
            folder=folders[host].folder,
            address=settings.addresses.get(host) or "127.0.0.1",
            lease_s=settings.lease_s,
            grace_s=settings.grace_s,
            identity=authority.agent(host),
            environ=settings.environ,
            interface=settings.interface,
            ports=settings.ports,
            warm=tuple(settings.warm.get(host, ())),
        )
        # Its secrets travel on standard input alone, to the host and there.
        question = {"module": AGENT, "path": folders[host].package, "stdin": request.to_json()}
        done = pythons.ask(host, "start_agent", question, timeout_s=_START_S)
        if done["code"] != 0:
            how = f"its agent {describe_exit(done['code'])} as it started"
            raise HostError(f"{host}: {last_line(done['stderr']) or how}")
        reply = AgentReply.from_json(done["stdout"])
        took(AgentAccess(host, f"{reply.address}:{reply.port}", launcher, settings.lease_s, settings.via.get(host)))
        return reply

    return on_each(list(folders), start)


def places(replies: Mapping[str, AgentReply], folders: Mapping[str, AgentFolders], addresses: Mapping[str, str]) -> dict[str, RemoteHost]:
    """What planning must know of each host."""
    return {
        host: RemoteHost(
            HostEnvironment(environ=reply.environ, cwd=folders[host].cwd, python=reply.python, shim=reply.shim),
            reply.folder,
            addresses[host],
        )
        for host, reply in replies.items()
    }


def common_addresses(supervisor: AddressProbe, replies: Mapping[str, AgentReply], settings: AgentSettings) -> dict[str, str]:
    """An address of each host that all hosts reach, on a port of those that tasks will have: the one its agent listens on if that is so,
    else, unless the user has chosen an interface, the first of its others. Raises StartError, which names who does not reach whom."""
    listening = fan_out(list(replies), lambda host: supervisor.listen(host, [replies[host].address], settings.ports), parallel=_PARALLEL)
    own = {where: host for host, found in all_or_error(dict(listening)).items() for where in found}
    found, missing = _reached_by_all(supervisor, own)
    if missing and settings.interface is None:
        others: dict[str, str] = {}
        for host in missing:
            others |= dict.fromkeys(supervisor.listen(host, [], settings.ports), host)
        more, _ = _reached_by_all(supervisor, others)
        found |= more
    lines = [
        f"{host}: not reached at {replies[host].address} from {', '.join(missing[host])}; open the firewall between the hosts, or choose "
        "another network with `interface:`"
        for host in missing
        if host not in found
    ]
    if lines:
        raise StartError("\n".join(lines))
    return {host: found[host] for host in replies}


def _reached_by_all(supervisor: AddressProbe, addresses: Mapping[str, str]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """(host -> the first of its addresses that everybody reaches, host -> who does not reach the last of them)."""
    reached = supervisor.probe(list(addresses)) if addresses else {}
    found: dict[str, str] = {}
    missing: dict[str, list[str]] = {}
    for address, host in addresses.items():
        without = [other for other, those in reached.items() if address not in those]
        if without:
            missing[host] = without
        else:
            found.setdefault(host, address.rpartition(":")[0])
    return found, {host: without for host, without in missing.items() if host not in found}
