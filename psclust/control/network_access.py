"""A supervisor's service for other machines that share the run's folder: mutual TLS on a port, and
a record of it in the folder, which only the owner can read."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc

from psclust.agent.access import channel_credentials, server_credentials, server_name
from psclust.agent.addresses import every_own_address
from psclust.errors import NoRunError
from psclust.forward.tls import Identity
from psclust.rundir.atomic_file import replacing
from psclust.rundir.batch_job import BatchJob
from psclust.spec.typed_json import JsonRecord
from psclust.transport.ports import add_secure_port

if TYPE_CHECKING:
    from psclust.rundir.folder import RunFolder

_HOST = "supervisor"  # in its certificate


@dataclass(frozen=True, slots=True)
class _Access(JsonRecord):
    addresses: tuple[str, ...]
    identity: Identity


def open_to_other_machines(server: grpc.Server, folder: RunFolder, ports: str) -> None:
    """Add a port, one of `ports` (a range, or auto), to a server that has not started. Raises
    OSError, StartError."""
    from psclust.control.certificates import Authority

    authority = Authority(f"{folder.path.parent.name}.{folder.id}")
    credentials = server_credentials(authority.agent(_HOST))
    port = add_secure_port(server, credentials, "0.0.0.0", ports)
    addresses = tuple(f"{address}:{port}" for address in every_own_address())
    with replacing(folder.access) as aside:
        aside.touch(mode=0o600)
        aside.write_text(_Access(addresses, authority.launcher()).to_json(), encoding="utf-8")


def lives_elsewhere(folder: RunFolder) -> bool:
    """Whether the run's supervisor is on another machine."""
    job = BatchJob.read(folder.job)
    return job is not None and job.host not in (None, socket.gethostname())


def channel_from_elsewhere(folder: RunFolder, options: list[tuple[str, Any]]) -> grpc.Channel:
    """Raises NoRunError where the supervisor does not serve yet, or any more."""
    try:
        access = _Access.from_json(folder.access.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        name = folder.path.parent.name
        raise NoRunError(
            f"the supervisor of {name} is not there yet, or not any more; see `psclust ps {name}`."
        ) from None
    credentials = channel_credentials(access.identity)
    # Of the addresses, gRPC takes the first that accepts the certificate.
    options = [*options, ("grpc.ssl_target_name_override", server_name(_HOST))]
    return grpc.secure_channel(f"ipv4:{','.join(access.addresses)}", credentials, options=options)
