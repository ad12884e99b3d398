"""Facts about each host and its Python: versions, what is installed, folders, room, clock."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import psclust
from psclust.errors import PsclustError
from psclust.reach.connections import Connections
from psclust.reach.fan_out import all_or_error, attempt_on_each
from psclust.reach.python.host_python import HostPython
from psclust.reach.python.host_pythons import HostPythons
from psclust.reach.python.on_host.facts import package_digest
from psclust.reach.python.remote_command import candidates
from psclust.reach.ways import WAYS


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Facts about a host, from one round trip. Versions are None if the thing is not there; sizes
    are bytes.

    psclust: the folder to put on PYTHONPATH for exactly our version; empty if that is installed,
    None if it must be shipped.
    missing: requirements of psclust that the Python does not meet. address: the host's own end of
    the connection. shared: whether the files that it was asked about are there, last changed at the
    same times. disks: folder -> bytes free on its disk, for the folder of runs, and that of shipped
    files if that is on another disk. clock: seconds by which the host's is ahead of ours, give or
    take `clock_error`."""

    host: str
    executable: str
    version: str
    tensorflow: str | None
    psclust: str | None
    psclust_version: str | None
    missing: tuple[str, ...]
    machine: str
    home: str
    cache: str
    state: str
    disks: Mapping[str, int]
    memory_free: int | None
    memory: int | None
    address: str | None
    shared: bool
    clock: float
    clock_error: float


def try_gather_facts(
    pythons: HostPythons, files: Mapping[str, int] | None = None
) -> dict[str, HostFacts | PsclustError]:
    """Of every host, with failures in their places. `files`: paths here with the time of their last
    change, in microseconds."""
    own_digest()  # once, not by every thread
    return attempt_on_each(
        pythons.connections.names, lambda host: ask_facts(host, pythons.on(host), files)
    )


def gather_facts(connections: Connections, python: str | None) -> dict[str, HostFacts]:
    """Of every host. Raises StartError with a
    line for each host whose Python psclust cannot use."""
    with HostPythons(connections, candidates(python)) as pythons:
        return all_or_error(try_gather_facts(pythons))


def ask_facts(host: str, python: HostPython, files: Mapping[str, int] | None = None) -> HostFacts:
    """Raises HostError."""
    asked = time.time()
    found = python.ask(
        "facts",
        {
            "package": str(_package()),
            "digest": own_digest(),
            "files": dict(files or {}),
            "connection_variables": [
                name for way in WAYS.values() if (name := way().CONNECTION_VARIABLE)
            ],
        },
    )
    answered = time.time()
    began, ended = found.pop("times")
    # As NTP does it (RFC 5905, section 8): what the way there and back took, without the work,
    # bounds the error.
    clock, error = (
        ((began - asked) + (ended - answered)) / 2,
        max(0.0, (answered - asked) - (ended - began)) / 2,
    )
    return HostFacts(
        host=host, clock=clock, clock_error=error, **{**found, "missing": tuple(found["missing"])}
    )


@lru_cache(maxsize=1)
def own_digest() -> str:
    """Of the psclust package that runs here."""
    return package_digest(str(_package()))


def _package() -> Path:
    return Path(psclust.__file__).parent
