"""Command lines of servers, ports for them, and who listens there."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import psclust

SERVER, PYTHON_SERVER = "psclust.runtime.bare_server", "psclust.runtime.python_server"
ENVIRONMENT = {"TF_GRPC_REUSE_PORT": "1", "TF_GRPC_WORKER_CACHE_QUEUES": "4"}


class Ports:
    """Ports that nobody else can take, and servers started with TF_GRPC_REUSE_PORT can."""

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def take(self) -> int:
        held = socket.socket()
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        self._held.append(held)
        return int(held.getsockname()[1])

    def close(self) -> None:
        for held in self._held:
            held.close()


def command(
    module: str, cluster: Mapping[str, list[str]], job: str, task: int, *flags: str
) -> list[str]:
    words = ["--cluster", json.dumps(cluster), "--job", job, "--task", str(task), *flags]
    return [sys.executable, "-m", module, *words]


def root() -> str:
    return str(Path(psclust.__file__).parents[1])


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def listeners(port: int) -> set[str]:
    """Addresses, as the kernel writes them, at which something listens on `port`."""
    bound = (line[1].rpartition(":") for line in _sockets() if line[3] == "0A")
    return {address for address, _, number in bound if int(number, 16) == port}


def keepalive_timer(peer: int) -> bool:
    """Whether the kernel has a keepalive timer for a connection whose peer has port `peer`."""
    timed = (line[2].rpartition(":")[2] for line in _sockets() if line[5].startswith("02:"))
    return peer in {int(number, 16) for number in timed}


def _sockets() -> list[list[str]]:
    """The columns of each line of the kernel's tables."""
    tables = [Path("/proc/net", name).read_text() for name in ("tcp", "tcp6")]
    return [line.split() for table in tables for line in table.splitlines()[1:]]
