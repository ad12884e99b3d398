"""What the facts about hosts mean for a cluster: facts in, findings out, each with its cure. Pure."""

from __future__ import annotations

import ipaddress
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import psclust
from psclust.errors import StartError
from psclust.reach.python.host_facts import HostFacts

Level = Literal["ok", "note", "problem"]

TENSORFLOW = "2.21"  # the version psclust is made for
_LITTLE_DISK = 1_000_000_000  # bytes
_LITTLE_MEMORY = 500_000_000
_SKEW = 2.0  # seconds by which times in logs may disagree before it is worth a word
_WRONG_CLOCK = 60.0  # and beyond which certificates are refused


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check says of one host. note: a cluster runs all the same. `cure`: what to do; empty where there is nothing to be done."""

    host: str
    check: str
    level: Level
    text: str
    cure: str = ""


@dataclass(frozen=True, slots=True)
class Checked:
    """The answers of `on_host/check.py` about a host, whose address others are to reach is `address`. shim: the address that a server under
    the bind shim ended up on, None where there is no shim for the host."""

    host: str
    address: str | None
    names: Mapping[str, str | None]
    proxies: Sequence[str]
    gpus: Sequence[str]
    interfaces: Mapping[str, str]
    shim: str | None
    firewall: bool | None


@dataclass(frozen=True, slots=True)
class Unreached:
    """A way between two hosts that is closed."""

    source: str
    target: str
    place: str
    reason: str


def quick(facts: Iterable[HostFacts]) -> list[Finding]:
    """What `up` looks at before it starts anything: all that one round trip tells."""
    hosts = list(facts)
    usual_python = _usual(python.version for python in hosts)
    usual_tensorflow = _usual(python.tensorflow for python in hosts if python.tensorflow)
    found: list[Finding] = []
    for host in hosts:
        found += [
            _python(host, usual_python),
            _tensorflow(host, usual_tensorflow),
            _psclust(host),
            *_packages(host),
            *_disks(host),
            *_memory(host),
            _clock(host),
        ]
    return found


def thorough(checks: Iterable[Checked], addresses: Mapping[str, str | None]) -> list[Finding]:
    """What `doctor` looks at beside that. `addresses`: of all hosts, as they are to reach each other."""
    found: list[Finding] = []
    for host in checks:
        found += [_gpus(host), *_names(host, addresses), _proxies(host), _one_interface(host), _exposure(host)]
    return found


def mesh(hosts: Sequence[str], unreached: Sequence[Unreached], unheard: Mapping[str, str]) -> list[Finding]:
    """The network between hosts. `unheard`: hosts that could not listen, and why."""
    found = [
        Finding(host, "network", "problem", f"cannot listen for others: {why}", "Choose other `ports:`, or an address that the host has.")
        for host, why in unheard.items()
    ]
    for host in hosts:
        ways = [way for way in unreached if way.source == host]
        if ways:
            shown = ", ".join(f"{way.target} at {way.place} ({way.reason})" for way in ways[:4]) + (" and more" if len(ways) > 4 else "")
            cure = "Open the ports of `ports:` between the hosts."
            found.append(Finding(host, "network", "problem", f"cannot reach {shown}", cure))
        elif host not in unheard:
            found.append(Finding(host, "network", "ok", "reaches all others" if len(hosts) > 1 else "servers can listen"))
    return found


def failed(host: str, check: str, text: str) -> Finding:
    """A check that could not be made, because of what `text` says."""
    return Finding(host, check, "problem", text.removeprefix(f"{host}: "))


def refuse(findings: Iterable[Finding], failures: Sequence[str] = ()) -> None:
    """Raises StartError with a line for each problem, after those of `failures`: hosts that could not be looked at."""
    lines = [*failures]
    lines += [f"{one.host}: {one.text}. {one.cure}".rstrip() for one in findings if one.level == "problem"]
    if lines:
        raise StartError("\n".join(lines))


def _usual(values: Iterable[str]) -> str | None:
    """The value most hosts have; of several, the highest."""
    counts = Counter(values)
    return max(counts, key=lambda value: (counts[value], _numbers(value)), default=None)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def _python(host: HostFacts, usual: str | None) -> Finding:
    assert usual is not None
    if _numbers(host.version)[:2] != _numbers(usual)[:2]:
        cure = "Install the same one everywhere, or name one that all have under `python:`."
        return Finding(host.host, "python", "problem", f"Python {host.version}, elsewhere {usual} ({host.executable})", cure)
    return Finding(host.host, "python", "ok", f"{host.version} ({host.executable})")


def _tensorflow(host: HostFacts, usual: str | None) -> Finding:
    install = f"{host.executable} -m pip install 'tensorflow=={usual or TENSORFLOW + '.*'}'"
    if host.tensorflow is None:
        return Finding(host.host, "tensorflow", "problem", f"no TensorFlow for {host.executable}", f"Run there: {install}")
    if host.tensorflow != usual:
        text = f"TensorFlow {host.tensorflow}, elsewhere {usual}"
        return Finding(host.host, "tensorflow", "problem", text, f"Versions must be equal. Run there: {install}")
    if _numbers(host.tensorflow)[:2] != _numbers(TENSORFLOW):
        return Finding(host.host, "tensorflow", "note", f"TensorFlow {host.tensorflow}; psclust is made for {TENSORFLOW}")
    return Finding(host.host, "tensorflow", "ok", host.tensorflow)


def _psclust(host: HostFacts) -> Finding:
    if host.psclust is not None:
        return Finding(host.host, "psclust", "ok", psclust.__version__)
    other = f", which is not the {host.psclust_version} there" if host.psclust_version else ""
    return Finding(host.host, "psclust", "ok", f"{psclust.__version__} is shipped{other}")


def _packages(host: HostFacts) -> Iterator[Finding]:
    if host.missing:
        cure = f"Run there: {host.executable} -m pip install {shlex.join(host.missing)}"
        yield Finding(host.host, "packages", "problem", f"{host.executable} lacks {', '.join(host.missing)}", cure)


def _disks(host: HostFacts) -> Iterator[Finding]:
    for folder, free in host.disks.items():
        little = free < _LITTLE_DISK
        needed_by = "what is sent there needs" if folder == host.cache else "logs and checkpoints need"
        yield Finding(
            host.host,
            "disk",
            "note" if little else "ok",
            f"{_size(free)} free in {folder}",
            f"Make room: {needed_by} it." if little else "",
        )


def _memory(host: HostFacts) -> Iterator[Finding]:
    if host.memory_free is not None and host.memory is not None:
        little = host.memory_free < _LITTLE_MEMORY
        text = f"{_size(host.memory_free)} free of {_size(host.memory)}"
        yield Finding(host.host, "memory", "note" if little else "ok", text, "A task that gets none is killed." if little else "")


def _clock(host: HostFacts) -> Finding:
    off = max(0.0, abs(host.clock) - host.clock_error)
    if off < _SKEW:
        return Finding(host.host, "clock", "ok", "right")
    text = f"{off:.0f} s {'ahead of' if host.clock > 0 else 'behind'} this machine's"
    wrong = off > _WRONG_CLOCK
    return Finding(host.host, "clock", "problem" if wrong else "note", text, "Set it: chronyd or timedatectl set-ntp true.")


def _gpus(host: Checked) -> Finding:
    counts = Counter(host.gpus)
    return Finding(host.host, "gpus", "ok", ", ".join(f"{count} x {name}" for name, count in counts.items()) or "none")


def _names(host: Checked, addresses: Mapping[str, str | None]) -> Iterator[Finding]:
    """Clusters use addresses; names matter to programs that look hosts up themselves."""
    cure = "It matters only to programs that use names: add it to /etc/hosts or DNS."
    unknown = [name for name, address in host.names.items() if address is None]
    wrong = {
        name: address
        for name, address in host.names.items()
        if address is not None and addresses.get(name) not in (None, address) and not _is_address(name)
    }
    if unknown:
        yield Finding(host.host, "names", "note", f"does not know the name{'s' * (len(unknown) > 1)} {', '.join(unknown)}", cure)
    if wrong:
        shown = ", ".join(f"{name} {address}, not {addresses[name]}" for name, address in wrong.items())
        yield Finding(host.host, "names", "note", f"takes {shown}", cure)
    if not unknown and not wrong and host.names:
        yield Finding(host.host, "names", "ok", "knows all hosts")


def _proxies(host: Checked) -> Finding:
    if host.proxies:
        text = f"{', '.join(host.proxies)} set"
        return Finding(host.host, "proxies", "note", text, "The cluster's own traffic never takes a proxy; a program's may.")
    return Finding(host.host, "proxies", "ok", "none")


def _one_interface(host: Checked) -> Finding:
    if host.shim == "127.0.0.1":
        return Finding(host.host, "bind shim", "ok", "servers listen on one interface")
    why = "no bind shim for this machine" if host.shim is None else "the bind shim does not load"
    everywhere = ", ".join(f"{name} {address}" for name, address in host.interfaces.items())
    text = f"{why}: servers would listen on every interface ({everywhere}), and sessions never notice a host that is cut off"
    return Finding(
        host.host, "bind shim", "problem", text, "Install gcc, and psclust again, there or here; or close the ports by a firewall."
    )


def _exposure(host: Checked) -> Finding:
    interface = next((name for name, address in host.interfaces.items() if address == host.address), None)
    if host.address is None or interface is None:
        text = f"{host.address or 'its address'} is on none of its interfaces"
        return Finding(host.host, "exposure", "note", text, "Others must reach it by an address of its own: name one as the host.")
    place = f"{host.address} ({interface})"
    if ipaddress.ip_address(host.address).is_loopback or host.firewall:
        return Finding(host.host, "exposure", "ok", f"{place}{', behind a firewall' if host.firewall else ''}")
    public = ipaddress.ip_address(host.address).is_global
    seen = "no firewall" if host.firewall is False else "a firewall only root could see"
    text = f"{place}, {seen}: whoever reaches it{' from the internet' if public else ''} can run code in the cluster's servers"
    level: Level = "problem" if public and host.firewall is False else "note"
    return Finding(host.host, "exposure", level, text, "Let only the cluster's hosts reach its ports.")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _size(count: int) -> str:
    return f"{count / 1e9:.0f} GB" if count >= 10e9 else f"{count / 1e9:.1f} GB"
