"""The process of an agent, `python -m psclust.agent` on a host: reads what it is to be from standard input, detaches itself under a guard,
and prints one line about itself when it can be dialled. The keys never touch a command line or a disk."""

from __future__ import annotations

import ipaddress
import json
import logging
import os
import signal
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psclust
from psclust.agent import guard
from psclust.agent.access import Identity
from psclust.agent.addresses import own_addresses
from psclust.errors import PsclustError, StartError, UsageError
from psclust.plan.task_environment import HostEnvironment, library_environment
from psclust.rundir.folder import RunFolder
from psclust.rundir.log_tail import last_line
from psclust.transport.bind_shim import bind_shim
from psclust.transport.fork_server_client import Load
from psclust.transport.ports import listen_in

_PORT_TRIES = 10
OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    # The launcher asks often whether the line still holds.
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ("grpc.keepalive_permit_without_calls", 1),
    # Two servers must never share a port by accident.
    ("grpc.so_reuseport", 0),
]


@dataclass(frozen=True)
class AgentRequest:
    """What an agent is told at its start.

    host: its own name in the cluster file. folder: where the run is kept. address: where it was reached, and listens unless there
    is an `interface`: the name of one, or a subnet such as 10.0.0.0/8. ports: auto, or a range of which it
    takes one. lease_s, grace_s: seconds. environ: variables for all tasks, secrets perhaps. warm: what to load at once. version: of the
    psclust that asks.
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
    version: str = psclust.__version__

    def to_json(self) -> str:
        return json.dumps({**self.__dict__, "identity": self.identity.to_json()})

    @classmethod
    def from_json(cls, text: str) -> AgentRequest:
        data: dict[str, Any] = json.loads(text)
        return cls(**{**data, "identity": Identity.from_json(data["identity"]), "warm": tuple(data["warm"])})


@dataclass(frozen=True)
class AgentReply:
    """What an agent says of itself.

    address, port: where it listens. folder: the run's on this host. shim: path of the bind shim, None where there is none. environ: of the
    environment that tasks inherit there, what planning looks at.
    """

    pid: int
    address: str
    port: int
    version: str
    python: str
    folder: str
    shim: str | None
    environ: Mapping[str, str]

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> AgentReply:
        return cls(**json.loads(text))


def main() -> int:
    """Starts the agent that standard input describes; returns when it answers. 0, or the exit code of what went wrong."""
    try:
        sys.stdout.write(start(AgentRequest.from_json(sys.stdin.read())))
    except (ValueError, KeyError, TypeError) as error:
        sys.stderr.write(f"an agent is started by `psclust up`, which tells it what to be on standard input ({error})\n")
        return UsageError.exit_code
    except PsclustError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


def start(request: AgentRequest) -> str:
    """Forks the agent off; its AgentReply in JSON. Raises StartError."""
    if request.version != psclust.__version__:
        there = f"psclust is {psclust.__version__} there, in {os.path.dirname(psclust.__file__)}, and {request.version} here"
        raise StartError(f"{there}. Install the same one, or remove that one: then ours is sent.")
    folder = RunFolder(Path(request.folder))
    try:
        folder.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.create()
    except OSError as error:
        raise StartError(f"{error.filename}: {error.strerror}; runs are kept there on {request.host}. Set PSCLUST_STATE there.") from None
    read, write = os.pipe()
    choose_address(request)
    guard.launch(folder.supervisor_log, lambda own_guard: _serve(request, folder, write, own_guard), lambda code: None)
    os.close(write)
    with open(read, encoding="utf-8") as pipe:
        said = pipe.readline()
    if not said:
        log = last_line(folder.supervisor_log.read_text(encoding="utf-8", errors="replace"))
        raise StartError(f"the agent did not start: {log or 'it said nothing'} (its log: {folder.supervisor_log})")
    return said


def _serve(request: AgentRequest, folder: RunFolder, ready: int, own_guard: guard.Guard) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    import grpc

    from psclust.agent import agent_pb2_grpc
    from psclust.agent.agent import Agent
    from psclust.agent.agent_service import AgentService
    from psclust.transport.local_transport import LocalTransport

    guard.become_subreaper()
    agent = Agent(folder, request.lease_s, request.grace_s)
    signal.signal(signal.SIGCHLD, lambda *_: agent.children_changed())
    own_guard.on_term(lambda: agent.leave("its guard was killed" if own_guard.is_gone() else "it was told to (SIGTERM)"))
    environ = {**os.environ, **request.environ}
    here = HostEnvironment(environ=environ, cwd=os.getcwd(), python=sys.executable, shim=bind_shim())
    transport = LocalTransport(agent, environ, library_environment(here), log=2)
    for load in request.warm:
        transport.warm(sys.executable, load, {})
    server = grpc.server(ThreadPoolExecutor(max_workers=32), options=OPTIONS)
    service = AgentService(agent)
    agent_pb2_grpc.add_AgentServicer_to_server(service, server)
    identity = request.identity
    credentials = grpc.ssl_server_credentials([(identity.key, identity.certificate)], identity.authority, require_client_auth=True)
    address = choose_address(request)
    port = _add_port(server, credentials, address, request.ports)
    server.start()
    names = ("TF_CONFIG", "LD_PRELOAD", *library_environment(HostEnvironment({}, "", "", None)))
    own = {name: environ[name] for name in names if name in environ}
    reply = AgentReply(os.getpid(), address, port, psclust.__version__, sys.executable, str(folder.path), here.shim, own)
    with open(ready, "w", encoding="utf-8") as pipe:
        pipe.write(reply.to_json() + "\n")
    agent.run(transport)
    transport.close()
    # Whoever follows has a moment to read the last news.
    server.stop(grace=0.5).wait()
    return 0


def _add_port(server: Any, credentials: Any, address: str, ports: str) -> int:
    """The first port of `ports` that is free. Raises StartError."""
    for _ in range(_PORT_TRIES):
        # Found free and taken the moment after: somebody else may come between, then the next one is tried.
        with listen_in(address, ports) as found:
            port = int(found.getsockname()[1])
        with suppress(RuntimeError):
            return int(server.add_secure_port(f"{address}:{port}", credentials))
    raise StartError(f"no port of {address} could be had for the agent: {_PORT_TRIES} were taken the moment after they were free")


def choose_address(request: AgentRequest) -> str:
    """Where to listen. Raises StartError where the host has no such interface, or no address in such a subnet."""
    wanted = request.interface
    if wanted is None:
        return request.address
    interfaces = own_addresses()
    if "/" in wanted:
        subnet = ipaddress.ip_network(wanted, strict=False)
        fitting = [address for addresses in interfaces.values() for address in addresses if ipaddress.ip_address(address) in subnet]
    else:
        fitting = list(interfaces.get(wanted, ()))
    if not fitting:
        there = ", ".join(f"{name} ({', '.join(addresses)})" for name, addresses in interfaces.items()) or "none"
        raise StartError(f"interface: {wanted}: {request.host} has none; it has {there}")
    return fitting[0]
