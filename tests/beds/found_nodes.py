"""An allocation for tests that start nothing: what `hosts: slurm` finds on four nodes in two
heterogeneous groups."""

from __future__ import annotations

from psclust.spec.cluster import Host
from psclust.spec.cluster_file import ClusterText
from psclust.spec.found_hosts import FoundHosts


def find_four_nodes(text: ClusterText) -> FoundHosts | None:
    """As `psclust.spec.found_hosts.FindHosts`: n1 and n2 are group het-0 with 2 CPUs each, n3 and
    n4 het-1 with 8."""
    if text.hosts is None:
        return None
    hosts = [Host("n1", 2), Host("n2", 2), Host("n3", 8), Host("n4", 8)]
    return FoundHosts(
        "slurm", hosts, "hosts: four nodes", {"het-0": ["n1", "n2"], "het-1": ["n3", "n4"]}
    )
