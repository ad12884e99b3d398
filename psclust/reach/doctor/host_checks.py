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
from psclust.reach.doctor import findings
from psclust.reach.doctor.findings import Checked, Finding, Unreached
from psclust.reach.fan_out import fan_out
from psclust.reach.python.dialogue import Script, local_script, remote_script
from psclust.reach.python.remote_command import candidates
from psclust.reach.python.remote_python import RemotePython, look
from psclust.reach.ssh.ssh_hosts import SshHosts

_PARALLEL = 32
_DIAL = 3.0  # seconds for one host to reach another
_TIMEOUT = 60.0
_T = TypeVar("_T")

PortRange = tuple[int, int]  # first and last; (0, 0): any


def examine(ssh: SshHosts, python: str | None, ranges: Sequence[PortRange], shim: Path | None) -> list[Finding]:
    """All checks on all hosts. Hosts without a log-in are findings, too. `ranges`: the ports of the cluster's servers."""
    logins = [Finding(host, "log-in", "ok", "by SSH") for host in ssh.names]
    logins += [findings.failed(host, "log-in", text) for host, text in ssh.failures.items()]
    return logins + _examine(list(ssh.names), lambda host: remote_script(ssh, host, candidates(python)), ranges, shim)


def examine_here(python: str | None, ranges: Sequence[PortRange], shim: Path | None) -> list[Finding]:
    """All checks that make sense on this machine alone."""
    return _examine(["localhost"], lambda host: local_script(candidates(python)[0]), ranges, shim)


def _examine(hosts: Sequence[str], start: Callable[[str], Script], ranges: Sequence[PortRange], shim: Path | None) -> list[Finding]:
    found: list[Finding] = []
    with ExitStack() as stack:
        scripts = _succeeded(_each(hosts, start), "python", found)
        for script in scripts.values():
            stack.enter_context(script)
        looks = _succeeded(_each(list(scripts), lambda host: look(host, scripts[host])), "python", found)
        addresses = {host: python.address or "127.0.0.1" for host, python in looks.items()}
        names = list(hosts) if len(hosts) > 1 else []
        checks = _each(list(looks), lambda host: _check(scripts[host], looks[host], addresses[host], names, shim))
        checked = _succeeded(checks, "checks", found)
        found += findings.quick(looks.values())
        found += findings.thorough(checked.values(), addresses)
        found += _mesh({host: scripts[host] for host in looks}, addresses, ranges)
    return found


def _check(script: Script, python: RemotePython, address: str, names: Sequence[str], shim: Path | None) -> Checked:
    fits = shim is not None and python.machine == platform.machine()
    library = base64.b64encode(shim.read_bytes()).decode("ascii") if shim is not None and fits else None
    answer = script.ask("surroundings", {"names": names, "shim": library, "cache": python.cache}, timeout=_TIMEOUT)
    return Checked(host=python.host, address=address, **answer)


def _mesh(scripts: Mapping[str, Script], addresses: Mapping[str, str], ranges: Sequence[PortRange]) -> list[Finding]:
    token = secrets.token_hex(8)
    listen = {"step": "listen", "ranges": list(ranges), "token": token}
    heard = _each(list(scripts), lambda host: _listen(scripts[host], {**listen, "address": addresses[host]}))
    found: list[Finding] = []
    places = _succeeded(heard, "network", found)
    unheard = {host: f"{addresses[host]}: {one}" for host, ones in places.items() for one in ones if isinstance(one, str)}
    targets = [(host, addresses[host], one) for host, ones in places.items() for one in ones if isinstance(one, int)]
    dialled = _succeeded(_each(list(places), lambda host: _dial(scripts[host], host, targets, token)), "network", found)
    return found + findings.mesh(list(dialled), [way for ways in dialled.values() for way in ways], unheard)


def _listen(script: Script, question: dict[str, Any]) -> list[int | str]:
    """A port for each range, or why there is none."""
    return [place.get("port") or str(place["error"]) for place in script.ask("mesh", question)]


def _dial(script: Script, host: str, targets: Sequence[tuple[str, str, int]], token: str) -> list[Unreached]:
    others = [target for target in targets if target[0] != host]
    answer: list[Any] = script.ask("mesh", {"step": "dial", "targets": others, "timeout": _DIAL, "token": token})
    return [Unreached(host, name, f"{address}:{port}", reason) for name, address, port, reason in answer]


def _each(hosts: Sequence[str], work: Callable[[str], _T]) -> dict[str, _T | PsclustError]:
    outcomes = dict(fan_out(hosts, work, parallel=_PARALLEL))
    return {host: outcomes[host] for host in hosts}


def _succeeded(outcomes: Mapping[str, _T | PsclustError], check: str, found: list[Finding]) -> dict[str, _T]:
    """What worked; what did not becomes a finding."""
    found += [findings.failed(host, check, str(outcome)) for host, outcome in outcomes.items() if isinstance(outcome, PsclustError)]
    return {host: outcome for host, outcome in outcomes.items() if not isinstance(outcome, PsclustError)}
