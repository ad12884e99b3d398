"""The gRPC channel to an agent: direct, or through a tunnel to its host. It detects a cut, and its
end, within `lease.RECONNECT_S`."""

from __future__ import annotations

import grpc

from psclust.agent.access import AgentAccess, server_name
from psclust.reach.carried_tunnel import CarriedTunnel
from psclust.reach.ways import open_tunnel

_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.keepalive_time_ms", 2000),
    ("grpc.keepalive_timeout_ms", 2000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 1000),
]
# TCP backs off during a cut; a new connection attempt is through sooner than an old one.
_DIRECT = [("grpc.min_reconnect_backoff_ms", 2000)]


class AgentChannel:
    """`channel` is the gRPC channel; `close` ends it and its tunnel."""

    def __init__(self, access: AgentAccess) -> None:
        self._tunnel = _tunnel(access)
        identity = access.identity
        credentials = grpc.ssl_channel_credentials(
            identity.authority, identity.key, identity.certificate
        )
        options = [
            *_OPTIONS,
            *([] if self._tunnel else _DIRECT),
            ("grpc.ssl_target_name_override", server_name(access.host)),
        ]
        self.channel = grpc.secure_channel(
            self._tunnel.address if self._tunnel else access.target, credentials, options=options
        )

    def close(self) -> None:
        self.channel.close()
        if self._tunnel is not None:
            self._tunnel.close()


def _tunnel(access: AgentAccess) -> CarriedTunnel | None:
    if access.via is None:
        return None
    host, _, port = access.target.rpartition(":")
    return open_tunnel(access.via, (host, int(port)))
