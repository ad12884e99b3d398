"""What the launcher needs of a way that makes its hosts itself, pods say. `ways.py` holds the
table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from psclust.spec.cluster_file import ClusterFile, ClusterText
    from psclust.spec.found_hosts import FoundHosts
    from psclust.spec.problems import Problem

Say = Callable[[str], None]


class HostMaker(Protocol):
    """Hosts that exist for one run. HOSTS: what they are, in messages."""

    HOSTS: str

    def check_file(self, file: ClusterFile) -> Iterator[Problem]:
        """Every reason why the file cannot run on such hosts."""

    def hosts_of(self, file: ClusterText) -> FoundHosts:
        """The hosts that a run will have. Raises UsageError."""

    def describe(self, file: ClusterFile) -> str:
        """The hosts as `psclust plan` shows them."""

    def location(self, file: ClusterFile) -> Mapping[str, Any]:
        """Where they are made, as JSON. Raises UsageError."""

    def make(self, file: ClusterFile, run: str, location: Mapping[str, Any], say: Say) -> None:
        """Make the hosts of the run with this id, and wait until they can be reached. `say` gets
        lines for the user. Raises StartError; what was made until then stays."""

    def remove(self, cluster: str, run: str, location: Mapping[str, Any]) -> int:
        """Remove all hosts of a run, if there are any, and wait until they are gone; returns how
        many there were. Raises StartError."""
