"""The Python of each host: which one it is, what it has installed, and whether psclust is there already."""

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


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What a host's Python is like. Versions are texts, None where a thing is not there; sizes are bytes.

    psclust: None where psclust in exactly our version must be shipped; otherwise the folder to put on PYTHONPATH, or an empty text where
    it is installed. missing: requirements of psclust that the Python does not meet. address: the host's own end of the SSH connection.
    shared: whether the files that it was asked about are there, last changed at the same times.
    disks: what is free, in bytes, on the disk of each of these folders: of the runs, and, where that is on another disk, of what is sent.
    clock: seconds by which the host's is ahead of ours, give or take `clock_error`."""

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


def gather_facts(connections: Connections, wanted: str | None) -> dict[str, HostFacts]:
    """Of every host, in one round trip each. Raises StartError with a line for each host that has none for psclust."""
    with HostPythons(connections, candidates(wanted)) as pythons:
        return all_or_error(try_gather_facts(pythons))


def try_gather_facts(pythons: HostPythons, files: Mapping[str, int] | None = None) -> dict[str, HostFacts | PsclustError]:
    """Of every host, with failures in their places. `files`: paths here with the time of their last change, in microseconds."""
    own_digest()  # once, not by every thread
    return attempt_on_each(pythons.connections.names, lambda host: ask_facts(host, pythons.on(host), files))


def ask_facts(host: str, python: HostPython, files: Mapping[str, int] | None = None) -> HostFacts:
    """`python` must have the module `facts`. Raises HostError."""
    asked = time.time()
    found = python.ask("facts", {"package": str(_package()), "digest": own_digest(), "files": dict(files or {})})
    heard = time.time()
    began, ended = found.pop("times")
    # As NTP does it (RFC 5905, section 8): what the way there and back took, without the work, bounds the error.
    clock, error = ((began - asked) + (ended - heard)) / 2, max(0.0, (heard - asked) - (ended - began)) / 2
    return HostFacts(host=host, clock=clock, clock_error=error, **{**found, "missing": tuple(found["missing"])})


@lru_cache(maxsize=1)
def own_digest() -> str:
    """Of the psclust that runs here."""
    return package_digest(str(_package()))


def _package() -> Path:
    return Path(psclust.__file__).parent
