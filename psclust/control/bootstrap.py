"""Starting the agents of a run, through a Python on each host, and the addresses at which its hosts
reach each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from psclust.agent.access import AgentAccess
from psclust.agent.process import AgentReply, AgentRequest
from psclust.agent.standing_protocol import STAY_HERE
from psclust.control.certificates import Authority
from psclust.control.supervisor_client import SupervisorClient
from psclust.errors import HostError, PsclustError, StartError
from psclust.plan.plan_inputs import RemoteHost
from psclust.reach.fan_out import all_or_error, attempt_on_each, on_each
from psclust.reach.python.host_pythons import HostPythons
from psclust.reach.python.remote_command import AGENT
from psclust.rundir.log_tail import last_line
from psclust.spec.cluster import TunnelWay
from psclust.supervise.exit_code import describe_exit
from psclust.transport.fork_server_client import Load

_START_S = 60.0


@dataclass(frozen=True)
class AgentFolders:
    """Folders on a host. package: where psclust was shipped to, None if it is installed. cwd: the
    program's. folder: the run's."""

    package: str | None
    cwd: str
    folder: str


@dataclass(frozen=True)
class AgentSettings:
    """Settings that all agents of a run share. name: the cluster's. environ: for all tasks, may
    hold secrets. warm: fork servers to start at once, by host. addresses: where each host was
    reached. ports: auto, or the range for tasks. via: hosts whose agents are reached through a
    tunnel. standing: whether a host's standing agent, if there is one, starts its agent. dials:
    whether the launching machine, too, has clients of tasks. leave_s: see `AgentRequest`."""

    name: str
    lease_s: float
    grace_s: float
    interface: str | None
    environ: Mapping[str, str]
    warm: Mapping[str, Sequence[Load]]
    addresses: Mapping[str, str]
    ports: str = "auto"
    via: Mapping[str, TunnelWay] = field(default_factory=dict)
    standing: bool = True
    dials: bool = False
    leave_s: float = 0.0


def start_agents(
    pythons: HostPythons,
    folders: Mapping[str, AgentFolders],
    settings: AgentSettings,
    started: Callable[[AgentAccess], None],
    traffic: Authority | None,
    failed: Callable[[Mapping[str, str]], None] | None,
) -> dict[str, AgentReply]:
    """Start an agent on every host of `folders`, in parallel; `started` is called with each as soon
    as it accepts connections. traffic: the authority of the run's forwarders; None: it has none.
    failed: takes the hosts without an agent and the reasons, and may refuse them. Raises StartError
    with a line for each failure."""
    authority = Authority(settings.name)
    launcher = authority.launcher()
    client = traffic.forwarder("launcher") if traffic is not None and settings.dials else None

    def start(host: str) -> AgentReply:
        request = AgentRequest(
            host=host,
            folder=folders[host].folder,
            address=settings.addresses.get(host) or "127.0.0.1",
            lease_s=settings.lease_s,
            grace_s=settings.grace_s,
            leave_s=settings.leave_s,
            identity=authority.agent(host),
            environ=settings.environ,
            interface=settings.interface,
            ports=settings.ports,
            warm=tuple(settings.warm.get(host, ())),
            forwarder=traffic.forwarder(host) if traffic is not None else None,
        )
        # On standard input all the way, as it holds secrets.
        question = {
            "module": AGENT,
            "arguments": [] if settings.standing else [STAY_HERE],
            "path": folders[host].package,
            "stdin": request.to_json(),
        }
        done = pythons.on(host).ask("start_agent", question, timeout_s=_START_S)
        if done["code"] != 0:
            how = f"its agent {describe_exit(done['code'])} as it started"
            raise HostError(f"{host}: {last_line(done['stderr']) or how}")
        reply = AgentReply.from_json(done["stdout"])
        started(
            AgentAccess(
                host,
                f"{reply.address}:{reply.port}",
                launcher,
                settings.lease_s,
                settings.via.get(host),
                reply.network,
                client,
            )
        )
        return reply

    return _replies(attempt_on_each(list(folders), start), failed)


def _replies(
    outcomes: Mapping[str, AgentReply | PsclustError],
    failed: Callable[[Mapping[str, str]], None] | None,
) -> dict[str, AgentReply]:
    if failed is None:
        return all_or_error(outcomes)
    failed({host: str(each) for host, each in outcomes.items() if isinstance(each, PsclustError)})
    return {host: each for host, each in outcomes.items() if not isinstance(each, PsclustError)}


def remote_hosts(
    replies: Mapping[str, AgentReply],
    folders: Mapping[str, AgentFolders],
    addresses: Mapping[str, str],
) -> dict[str, RemoteHost]:
    """Each host as planning needs it."""
    return {
        host: RemoteHost(
            replace(reply.environment, cwd=folders[host].cwd),
            reply.folder,
            "127.0.0.1" if reply.forwarder else addresses[host],
            f"{addresses[host]}:{reply.forwarder}" if reply.forwarder else None,
        )
        for host, reply in replies.items()
    }


def common_addresses(
    supervisor: SupervisorClient, replies: Mapping[str, AgentReply], settings: AgentSettings
) -> dict[str, str]:
    """For each host an address to which all hosts can connect, tried on a port from the range for
    tasks: the one its agent listens on, else the first other one that works, unless the user chose
    an interface. Raises StartError, which names the hosts that cannot connect."""
    listening = on_each(
        list(replies), lambda host: supervisor.listen(host, [replies[host].address], settings.ports)
    )
    own = {address: host for host, found in listening.items() for address in found}
    found, missing = _reached_by_all(supervisor, own)
    if missing and settings.interface is None:
        others: dict[str, str] = {}
        for host in missing:
            others |= dict.fromkeys(supervisor.listen(host, [], settings.ports), host)
        more, _ = _reached_by_all(supervisor, others)
        found |= more
    lines = [
        f"{host}: not reached at {replies[host].address} from {', '.join(missing[host])}; "
        "open the firewall between the hosts, or choose another network with `interface:`"
        for host in missing
        if host not in found
    ]
    if lines:
        raise StartError("\n".join(lines))
    return {host: found[host] for host in replies}


def _reached_by_all(
    supervisor: SupervisorClient, addresses: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Host -> its first address that all hosts reach; for a host without one, the hosts that do not
    reach the last."""
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
