"""The process of an agent, `python -m psclust.agent` on a host: reads an AgentRequest from standard
input, forks the agent under a guard, and prints an AgentReply when it accepts connections. Keys
never touch a command line or a disk."""

from __future__ import annotations

import ipaddress
import json
import os
import signal
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import psclust
from psclust.agent import guard
from psclust.agent.access import server_credentials
from psclust.agent.addresses import every_own_address, network, own_addresses
from psclust.errors import StartError, UsageError
from psclust.failed_threads import end_when_threads_fail
from psclust.forward.tls import Identity
from psclust.plan.task_environment import (
    HostEnvironment,
    library_environment,
    planned_with,
)
from psclust.rundir.atomic_file import write_required
from psclust.rundir.folder import RunFolder
from psclust.rundir.log_tail import last_line
from psclust.spec.typed_json import JsonRecord
from psclust.transport.fork_server_client import Load
from psclust.transport.ports import add_secure_port
from psclust.transport.process_stat import START_TICKS, stat_fields
from psclust.transport.server_shim import server_shim, tls_library

if TYPE_CHECKING:
    from psclust.forward.forwarder_process import ForwarderProcess

_TELL_S = 2.0  # for a supervisor that is connecting when the agent stops
OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    # The supervisor pings every 2 s (control.agent_channel).
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ("grpc.keepalive_permit_without_calls", 1),
    # Fail if another server has the port.
    ("grpc.so_reuseport", 0),
]


@dataclass(frozen=True)
class AgentRequest(JsonRecord):
    """The settings of one agent.

    host: its name in the cluster file. folder: the run's on this host. address: where to listen,
    unless there is an `interface`: its name, or a subnet such as 10.0.0.0/8. ports: auto, or a
    range. environ: variables for all tasks, which may be secret. warm: fork servers to start at
    once. leave_s: see `Agent`. forwarder: with what its forwarder shows who it is; None: the run is
    not encrypted. version: of the launcher's psclust.
    """

    host: str
    folder: str
    address: str
    lease_s: float
    grace_s: float
    identity: Identity
    environ: Mapping[str, str]
    interface: str | None = None
    ports: str = "auto"
    warm: tuple[Load, ...] = ()
    forwarder: Identity | None = None
    leave_s: float = 0.0
    version: str = psclust.__version__


@dataclass(frozen=True)
class AgentReply(JsonRecord):
    """The properties of a started agent.

    address, port: where it listens. folder: the run's on this host. environment: of the variables
    only those that planning depends on. forwarder: the port of its forwarder, 0 without one.
    network: see `psclust.agent.addresses.network`. tls: of its forwarder
    (`psclust.forward.tls.expected_tls`).
    """

    pid: int
    address: str
    port: int
    folder: str
    environment: HostEnvironment
    forwarder: int
    network: str
    tls: str = ""


def main() -> int:
    """Start the agent that standard input describes; returns 0 when it accepts connections. Raises
    UsageError, StartError."""
    try:
        sys.stdout.write(start(AgentRequest.from_json(sys.stdin.read())))
    except ValueError as error:
        raise UsageError(
            "`psclust up` starts agents, with their settings on standard input; "
            f"these are not valid: {error}"
        ) from None
    return 0


def start(request: AgentRequest) -> str:
    """Fork the agent; returns its AgentReply as JSON. Raises StartError."""
    if request.version != psclust.__version__:
        there = (
            f"psclust is {psclust.__version__} there, in {os.path.dirname(psclust.__file__)}, "
            f"and {request.version} here"
        )
        raise StartError(
            f"{there}. Install the same version, or uninstall that one: psclust then sends its own."
        )
    folder = RunFolder(Path(request.folder))
    try:
        folder.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):  # of an agent that this run has lost here
            folder.create()
    except OSError as error:
        raise StartError(
            f"{error.filename}: {error.strerror}; run folders of {request.host} are there. "
            "Set PSCLUST_STATE there."
        ) from None
    read, write = os.pipe()
    choose_address(request)
    guard.launch(
        folder.supervisor_log,
        lambda own_guard: _serve(request, folder, write, own_guard),
        lambda code: None,
    )
    os.close(write)
    with open(read, encoding="utf-8") as pipe:
        reply = pipe.readline()
    if not reply:
        line = last_line(folder.supervisor_log.read_text(encoding="utf-8", errors="replace"))
        raise StartError(
            f"the agent did not start: {line or 'its log is empty'} (log: {folder.supervisor_log})"
        )
    return reply


def _serve(request: AgentRequest, folder: RunFolder, ready: int, own_guard: guard.Guard) -> int:
    import grpc

    from psclust.agent.agent import Agent
    from psclust.agent.agent_calls import serve_agent
    from psclust.agent.agent_service import AgentService
    from psclust.transport.local_transport import LocalTransport

    _record_processes(folder.agent_process, own_guard.pid)
    agent = Agent(folder, request.lease_s, request.grace_s, request.leave_s)
    signal.signal(signal.SIGCHLD, lambda *_: agent.children_changed())
    own_guard.on_term(
        lambda: (
            agent.stop("its guard was killed")
            if own_guard.is_gone()
            else agent.leave("it got SIGTERM")
        )
    )
    forwarder = _forwarder(request)
    environ = {**os.environ, **request.environ}
    here = HostEnvironment(
        environ,
        os.getcwd(),
        sys.executable,
        server_shim(),
        len(os.sched_getaffinity(0)),
        tuple(every_own_address()),
    )
    of_host = forwarder.environ if forwarder is not None else {}
    transport = LocalTransport(agent, environ, library_environment(here), log=2, of_host=of_host)
    for load in request.warm:
        transport.warm(sys.executable, load, {})
    end_when_threads_fail()
    server = grpc.server(ThreadPoolExecutor(max_workers=32), options=OPTIONS)
    service = AgentService(agent, forwarder)
    serve_agent(service, server)
    address = choose_address(request)
    credentials = server_credentials(request.identity)
    port = add_secure_port(server, credentials, address, request.ports)
    server.start()
    reply = _reply((address, port), folder, here, forwarder)
    with open(ready, "w", encoding="utf-8") as pipe:
        pipe.write(reply.to_json() + "\n")
    agent.run(transport)
    transport.close()
    if forwarder is not None:
        forwarder.close()
    # A supervisor that cannot connect any more would not learn why, and wait until the lease is
    # over.
    service.sent_reason.wait(_TELL_S)
    # Time for the supervisor to receive the last updates.
    server.stop(grace=0.5).wait()
    return 0


def _reply(
    listens: tuple[str, int],
    folder: RunFolder,
    here: HostEnvironment,
    forwarder: ForwarderProcess | None,
) -> AgentReply:
    return AgentReply(
        os.getpid(),
        *listens,
        str(folder.path),
        replace(here, environ=planned_with(here.environ)),
        forwarder.port if forwarder is not None else 0,
        network(),
        forwarder.tls if forwarder is not None else "",
    )


def _forwarder(request: AgentRequest) -> ForwarderProcess | None:
    if request.forwarder is None:
        return None
    from psclust.forward.forwarder_process import ForwarderProcess

    return ForwarderProcess(request.forwarder, tls_library(), request.lease_s, request.ports)


def choose_address(request: AgentRequest) -> str:
    """Where to listen. Raises StartError if the host has no such interface, or no address in that
    subnet."""
    wanted = request.interface
    if wanted is None:
        return request.address
    interfaces = own_addresses()
    if "/" in wanted:
        subnet = ipaddress.ip_network(wanted, strict=False)
        fitting = [
            address
            for addresses in interfaces.values()
            for address in addresses
            if ipaddress.ip_address(address) in subnet
        ]
    else:
        fitting = list(interfaces.get(wanted, ()))
    if not fitting:
        there = (
            ", ".join(f"{name} ({', '.join(addresses)})" for name, addresses in interfaces.items())
            or "none"
        )
        raise StartError(f"interface: {wanted}: {request.host} has none; it has {there}")
    return fitting[0]


def _record_processes(path: Path, guard: int) -> None:
    """This process and its `guard`: [[pid, start], [pid, start]], the starts in ticks since the
    machine's. By this record the next `psclust up` finds an agent that has lost its supervisor
    (`psclust.reach.python.on_host.end_agent`). Raises StartError."""
    write_required(
        path,
        json.dumps([[pid, int(stat_fields(pid)[START_TICKS])] for pid in (os.getpid(), guard)]),
    )
