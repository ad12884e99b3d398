"""The checks of `psclust doctor`: facts from every host at once, by one process on each, which ends with the checks."""

from __future__ import annotations

import base64
import platform
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from psclust.errors import PsclustError
from psclust.reach.connections import Connections
from psclust.reach.doctor import findings
from psclust.reach.doctor.findings import Checked, Finding, Unreached
from psclust.reach.fan_out import attempt_on_each
from psclust.reach.python.host_facts import HostFacts, ask_facts
from psclust.reach.python.host_python import HostPython, start_local_python, start_python
from psclust.reach.python.remote_command import candidates

_DIAL_S = 3.0  # for one host to reach another
_TIMEOUT_S = 60.0
_T = TypeVar("_T")

PortRange = tuple[int, int]  # first and last; (0, 0): any


def examine(connections: Connections, python: str | None, ranges: Sequence[PortRange], shim: Path | None) -> list[Finding]:
    """All checks on all hosts. Hosts without a log-in are findings, too. `ranges`: the ports of the cluster's servers."""
    logins = [Finding(host, "log-in", "ok", f"by {connections.way}") for host in connections.names]
    logins += [findings.failed(host, "log-in", text) for host, text in connections.failures.items()]
    return logins + _examine(list(connections.names), lambda host: start_python(connections, host, candidates(python)), ranges, shim)


def examine_here(python: str | None, ranges: Sequence[PortRange], shim: Path | None) -> list[Finding]:
    """All checks that make sense on this machine alone."""
    return _examine(["localhost"], lambda host: start_local_python(candidates(python)[0]), ranges, shim)


def _examine(hosts: Sequence[str], start: Callable[[str], HostPython], ranges: Sequence[PortRange], shim: Path | None) -> list[Finding]:
    found: list[Finding] = []
    with ExitStack() as stack:
        pythons = _succeeded(attempt_on_each(hosts, start), "python", found)
        for python in pythons.values():
            stack.enter_context(python)
        facts = _succeeded(attempt_on_each(list(pythons), lambda host: ask_facts(host, pythons[host])), "python", found)
        addresses = {host: each.address or "127.0.0.1" for host, each in facts.items()}
        names = list(hosts) if len(hosts) > 1 else []
        checks = attempt_on_each(list(facts), lambda host: _check(pythons[host], facts[host], addresses[host], names, shim))
        checked = _succeeded(checks, "checks", found)
        found += findings.quick(facts.values())
        found += findings.thorough(checked.values(), addresses)
        found += _mesh({host: pythons[host] for host in facts}, addresses, ranges)
    return found


def _check(python: HostPython, facts: HostFacts, address: str, names: Sequence[str], shim: Path | None) -> Checked:
    fits = shim is not None and facts.machine == platform.machine()
    library = base64.b64encode(shim.read_bytes()).decode("ascii") if shim is not None and fits else None
    answer = python.ask("surroundings", {"names": names, "shim": library, "cache": facts.cache}, timeout_s=_TIMEOUT_S)
    return Checked(host=facts.host, address=address, **answer)


def _mesh(pythons: Mapping[str, HostPython], addresses: Mapping[str, str], ranges: Sequence[PortRange]) -> list[Finding]:
    token = secrets.token_hex(8)
    listen = {"step": "listen", "ranges": list(ranges), "token": token}
    heard = attempt_on_each(list(pythons), lambda host: _listen(pythons[host], {**listen, "address": addresses[host]}))
    found: list[Finding] = []
    places = _succeeded(heard, "network", found)
    unheard = {host: f"{addresses[host]}: {one}" for host, ones in places.items() for one in ones if isinstance(one, str)}
    targets = [(host, addresses[host], one) for host, ones in places.items() for one in ones if isinstance(one, int)]
    dialled = _succeeded(attempt_on_each(list(places), lambda host: _dial(pythons[host], host, targets, token)), "network", found)
    return found + findings.mesh(list(dialled), [way for ways in dialled.values() for way in ways], unheard)


def _listen(python: HostPython, question: dict[str, Any]) -> list[int | str]:
    """A port for each range, or why there is none."""
    return [place.get("port") or str(place["error"]) for place in python.ask("mesh", question)]


def _dial(python: HostPython, host: str, targets: Sequence[tuple[str, str, int]], token: str) -> list[Unreached]:
    others = [target for target in targets if target[0] != host]
    answer: list[Any] = python.ask("mesh", {"step": "dial", "targets": others, "timeout": _DIAL_S, "token": token})
    return [Unreached(host, name, f"{address}:{port}", reason) for name, address, port, reason in answer]


def _succeeded(outcomes: Mapping[str, _T | PsclustError], check: str, found: list[Finding]) -> dict[str, _T]:
    """What worked; what did not becomes a finding."""
    found += [findings.failed(host, check, str(outcome)) for host, outcome in outcomes.items() if isinstance(outcome, PsclustError)]
    return {host: outcome for host, outcome in outcomes.items() if not isinstance(outcome, PsclustError)}
