"""Asks every host at once what the checks of `psclust doctor` need, through one Python on each, and
makes the checks."""

from __future__ import annotations

import base64
import platform
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from psclust.reach.connections import Connections
from psclust.reach.doctor.finding import Finding, succeeded
from psclust.reach.doctor.network_examination import PortRange, examine_network
from psclust.reach.doctor.quick_checks import quick
from psclust.reach.doctor.thorough_checks import Surroundings, thorough
from psclust.reach.fan_out import attempt_on_each
from psclust.reach.python.host_facts import HostFacts, ask_facts
from psclust.reach.python.host_python import HostPython, start_local_python, start_python
from psclust.reach.python.remote_command import candidates
from psclust.rundir.links_file import Link
from psclust.spec import tensorflow_builds

_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Examination:
    """findings: of all checks. links: those between hosts that were measured."""

    findings: Sequence[Finding]
    links: Sequence[Link]


def examine(
    connections: Connections,
    python: str | None,
    ranges: Sequence[PortRange],
    shim: Path | None,
    folder: Path,
) -> Examination:
    """All checks of all hosts; a host without a log-in is a finding, too. `ranges`: the ports of
    the cluster's servers. `folder`: that of the program, here."""
    times: list[float] = []

    def start(host: str) -> HostPython:
        began = time.monotonic()
        found = start_python(connections, host, candidates(python))
        times.append(time.monotonic() - began)
        return found

    found, links = _examine(
        _Hosts(list(connections.names), start, connections.address_of, folder), ranges, shim
    )
    how = f"by {connections.way}" + (
        f"; a Python answers within {max(times):.1f} s" if times else ""
    )
    logins = [Finding(host, "log-in", "ok", how) for host in connections.names]
    failed = [Finding.failed(host, "log-in", text) for host, text in connections.failures.items()]
    return Examination([*logins, *failed, *found], links)


def examine_here(python: str | None, ranges: Sequence[PortRange], shim: Path | None) -> Examination:
    """All checks that make sense on this machine alone."""
    hosts = _Hosts(["localhost"], lambda host: start_local_python(candidates(python)[0]))
    return Examination(*_examine(hosts, ranges, shim))


@dataclass(frozen=True, slots=True)
class _Hosts:
    """folder: one of this machine that the hosts may share."""

    names: Sequence[str]
    start: Callable[[str], HostPython]
    address_of: Callable[[str], str | None] = lambda host: None
    folder: Path | None = None


def _examine(
    hosts: _Hosts, ranges: Sequence[PortRange], shim: Path | None
) -> tuple[list[Finding], list[Link]]:
    found: list[Finding] = []
    with ExitStack() as stack:
        pythons = succeeded(attempt_on_each(hosts.names, hosts.start), "python", found)
        for python in pythons.values():
            stack.enter_context(python)
        files = {str(hosts.folder): hosts.folder.stat().st_mtime_ns // 1000} if hosts.folder else {}
        facts = succeeded(
            attempt_on_each(list(pythons), lambda host: ask_facts(host, pythons[host], files)),
            "python",
            found,
        )
        addresses = {
            host: each.address or hosts.address_of(host) or "127.0.0.1"
            for host, each in facts.items()
        }
        names = list(hosts.names) if len(hosts.names) > 1 else []
        answers = attempt_on_each(
            list(facts),
            lambda host: _ask_surroundings(
                pythons[host], facts[host], addresses[host], names, shim
            ),
        )
        surroundings = succeeded(answers, "checks", found)
        found += quick(facts.values())
        found += thorough(surroundings.values(), addresses)
        found += [
            _folder(host, hosts.folder, shared=each.shared)
            for host, each in facts.items()
            if hosts.folder
        ]
        of_network, links = examine_network(
            {host: pythons[host] for host in facts}, addresses, ranges
        )
    return found + of_network, links


def _folder(host: str, folder: Path, *, shared: bool) -> Finding:
    return Finding(
        host,
        "folder",
        "ok",
        f"{folder} is shared" if shared else f"{folder} is not shared; `psclust up` sends it",
    )


def _ask_surroundings(
    python: HostPython, facts: HostFacts, address: str, names: Sequence[str], shim: Path | None
) -> Surroundings:
    fits = shim is not None and facts.machine == platform.machine()
    library = (
        base64.b64encode(shim.read_bytes()).decode("ascii") if shim is not None and fits else None
    )
    answer = python.ask(
        "surroundings",
        {
            "names": names,
            "shim": library,
            "cache": facts.cache,
            "builds": Path(tensorflow_builds.__file__).read_text(encoding="utf-8"),
        },
        timeout_s=_TIMEOUT_S,
    )
    return Surroundings(host=facts.host, address=address, **answer)
