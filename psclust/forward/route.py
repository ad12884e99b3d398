"""The way to a task of another host."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Route:
    """A port of 127.0.0.1 whose task runs on `host` (the name in its certificate), where the
    forwarder is at `address`, a port in it. listens: whether the forwarder has the port; another
    one of the same machine has it otherwise."""

    port: int
    host: str
    address: str
    listens: bool = True

    @property
    def door(self) -> tuple[str, int]:
        host, _, port = self.address.rpartition(":")
        return host, int(port)
