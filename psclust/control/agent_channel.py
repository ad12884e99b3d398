"""The gRPC channel to an agent: direct, or through a tunnel to its host. It detects a cut, and its
end, within `lease.RECONNECT_S`."""

from __future__ import annotations

from contextlib import ExitStack

import grpc

from psclust.agent.access import AgentAccess, channel_credentials, server_name
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


def open_channel(access: AgentAccess, closing: ExitStack) -> grpc.Channel:
    """closing: ends it, and its tunnel."""
    target = access.target
    options = [*_OPTIONS, ("grpc.ssl_target_name_override", server_name(access.host))]
    if access.via is None:
        options += _DIRECT
    else:
        host, _, port = target.rpartition(":")
        tunnel = open_tunnel(access.via, (host, int(port)))
        closing.callback(tunnel.close)
        target = tunnel.address
    channel = grpc.secure_channel(target, channel_credentials(access.identity), options=options)
    closing.callback(channel.close)
    return channel
