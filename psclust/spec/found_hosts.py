"""Hosts that no file lists: those of a batch allocation, say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from psclust.spec.cluster import Host

if TYPE_CHECKING:
    from psclust.spec.cluster_file import ClusterText

LOCAL = "local"
# `hosts:` may be one of these words in place of a list.
HOST_WORDS = (LOCAL, "slurm")


@dataclass(frozen=True, slots=True)
class FoundHosts:
    """reach_by: how they are reached. groups: names that a job's `hosts` may use for several of
    them. text: what was found, for the user. python: the interpreter there, unless the file names
    one; None: as on other hosts."""

    reach_by: str
    hosts: Sequence[Host]
    text: str
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    python: str | None = None


# Of a file that lists none, by the word there or by the surroundings; None: this machine alone.
# Raises UsageError.
FindHosts = Callable[["ClusterText"], FoundHosts | None]


def this_machine(text: ClusterText) -> FoundHosts | None:
    """Look for no hosts."""
    return None
