"""Facts about all hosts of a bed."""

from __future__ import annotations

from psclust.reach.connections import Connections
from psclust.reach.fan_out import all_or_error
from psclust.reach.python.host_facts import HostFacts, try_gather_facts
from psclust.reach.python.host_pythons import HostPythons
from psclust.reach.python.remote_command import candidates


def gather_facts(connections: Connections, python: str | None) -> dict[str, HostFacts]:
    """Raises StartError with a line for each host whose Python psclust cannot use."""
    with HostPythons(connections, candidates(python)) as pythons:
        return all_or_error(try_gather_facts(pythons))
