"""Hosts that a system lists, with their state and address: nodes of a job, pods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from psclust.errors import HostError, StartError
from psclust.spec.cluster import Host

_H = TypeVar("_H", bound="ListedHosts")


class ListedHosts(ABC):
    """A base for `Connections` to such hosts: entering looks all hosts up at once, and no
    connection stays between commands. way, partial: see `Way.connect` and `Connections`."""

    def __init__(self, way: str, hosts: Sequence[Host], *, partial: bool) -> None:
        self.way = way
        self.hosts = tuple(hosts)
        self.failures: dict[str, str] = {}
        self._partial = partial
        self._addresses: dict[str, str] = {}

    def __enter__(self: _H) -> _H:
        find = self._look_up()
        for host in self.hosts:
            try:
                self._addresses[host.name] = find(host.name)
            except HostError as error:
                self.failures[host.name] = str(error)
        if self.failures and not self._partial:
            raise StartError("\n".join(self.failures.values()))
        return self

    def __exit__(self, *details: object) -> None:
        """Nothing is open."""
        return

    @property
    def names(self) -> Sequence[str]:
        """See `Connections.names`."""
        return tuple(self._addresses)

    def address_of(self, host: str) -> str | None:
        """See `Connections.address_of`."""
        return self._addresses[host]

    @abstractmethod
    def _look_up(self) -> Callable[[str], str]:
        """Returns what gives a host's address, or raises HostError with why it cannot be
        reached."""
