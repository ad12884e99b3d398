"""Address and credentials of an agent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from psclust.spec.cluster import Host
from psclust.spec.typed_json import build, parse_json


@dataclass(frozen=True)
class Identity:
    """The certificate and key of one side of a connection, and the authority that signed the other
    side's; all PEM."""

    key: bytes
    certificate: bytes
    authority: bytes

    def to_json(self) -> dict[str, str]:
        return {
            "key": self.key.decode(),
            "certificate": self.certificate.decode(),
            "authority": self.authority.decode(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, str]) -> Identity:
        """Raises ValueError."""
        text = build(_Text, data)
        if not (text.key and text.certificate and text.authority):
            raise ValueError("an empty key or certificate")  # with which gRPC ends the process
        return cls(text.key.encode(), text.certificate.encode(), text.authority.encode())


@dataclass(frozen=True)
class _Text:
    """An identity as JSON."""

    key: str
    certificate: str
    authority: str


@dataclass(frozen=True)
class AgentAccess:
    """How to reach the agent of `host`. target: its `address:port`. lease_s: how long it runs
    without contact. via: how to open a tunnel to its host (`psclust.reach.ways`); None to connect
    directly. network: of its host (`psclust.agent.addresses.network`). client: with what the
    launching machine takes part in what the hosts forward; None: it does not."""

    host: str
    target: str
    identity: Identity
    lease_s: float
    via: Mapping[str, Any] | None = None
    network: str = ""
    client: Identity | None = None

    def to_json(self) -> str:
        client = self.client.to_json() if self.client else None
        return json.dumps({**self.__dict__, "identity": self.identity.to_json(), "client": client})

    @classmethod
    def from_json(cls, text: str) -> AgentAccess:
        """Raises ValueError."""
        found = build(_AccessText, parse_json(text))
        if found.via is not None:
            build(_Via, found.via)
        client = Identity.from_json(found.client) if found.client else None
        identity = Identity.from_json(found.identity)
        return cls(
            found.host,
            found.target,
            identity,
            found.lease_s,
            found.via,
            found.network,
            client,
        )


@dataclass(frozen=True)
class _Via:
    reach_by: str
    host: Host
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class _AccessText:
    """An access as JSON."""

    host: str
    target: str
    identity: Mapping[str, str]
    lease_s: float
    via: Mapping[str, Any] | None = None
    network: str = ""
    client: Mapping[str, str] | None = None


def server_name(host: str) -> str:
    """The name in an agent's certificate, independent of its address."""
    return f"{host}.agent.psclust"
