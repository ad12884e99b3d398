"""Address and credentials of an agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psclust.forward.tls import Identity
from psclust.spec.cluster import TunnelWay
from psclust.spec.typed_json import JsonRecord

if TYPE_CHECKING:
    import grpc


@dataclass(frozen=True)
class AgentAccess(JsonRecord):
    """How to reach the agent of `host`. target: its `address:port`. lease_s: how long it runs
    without contact. via: how to open a tunnel to its host; None to connect directly. network: of
    its host (`psclust.agent.addresses.network`). client: with what the launching machine takes part
    in what the hosts forward; None: it does not."""

    host: str
    target: str
    identity: Identity
    lease_s: float
    via: TunnelWay | None = None
    network: str = ""
    client: Identity | None = None


def server_name(host: str) -> str:
    """The name in an agent's certificate, independent of its address."""
    return f"{host}.agent.psclust"


def server_credentials(identity: Identity) -> grpc.ServerCredentials:
    """For clients with a certificate of the same authority, and no others."""
    import grpc

    pair = identity.key.encode(), identity.certificate.encode()
    return grpc.ssl_server_credentials(
        [pair], identity.authority.encode(), require_client_auth=True
    )


def channel_credentials(identity: Identity) -> grpc.ChannelCredentials:
    import grpc

    return grpc.ssl_channel_credentials(
        identity.authority.encode(), identity.key.encode(), identity.certificate.encode()
    )
