"""A connection to an agent: directly, or through a tunnel to its host. It notices within seconds that it is cut, and that the cut
is over; `lease.RECONNECT_S` counts on that."""

from __future__ import annotations

import grpc

from psclust.agent.access import AgentAccess, server_name
from psclust.reach.connections import Tunnel
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
# An attempt that began during a cut waits longer and longer between its packets: a new one begins sooner.
_DIRECT = [("grpc.min_reconnect_backoff_ms", 2000)]


class AgentChannel:
    """`channel` to the agent; `close` it."""

    def __init__(self, access: AgentAccess) -> None:
        self._tunnel = _tunnel(access)
        identity = access.identity
        credentials = grpc.ssl_channel_credentials(identity.authority, identity.key, identity.certificate)
        options = [*_OPTIONS, *([] if self._tunnel else _DIRECT), ("grpc.ssl_target_name_override", server_name(access.host))]
        self.channel = grpc.secure_channel(self._tunnel.address if self._tunnel else access.target, credentials, options=options)

    def close(self) -> None:
        self.channel.close()
        if self._tunnel is not None:
            self._tunnel.close()


def _tunnel(access: AgentAccess) -> Tunnel | None:
    if access.via is None:
        return None
    host, _, port = access.target.rpartition(":")
    return open_tunnel(access.via, (host, int(port)))
