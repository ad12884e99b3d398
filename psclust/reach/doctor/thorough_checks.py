"""The checks that `doctor` makes beside the quick ones: other obstacles on a host, and the network.
Pure."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from psclust.reach.doctor.finding import Finding, Verdict
from psclust.rundir.links_file import Link
from psclust.spec.plurals import some_of
from psclust.spec.tensorflow_builds import C_LIBRARY, fit_of

_WHAT_FITS = "All of it fits what `pip install tensorflow` brings."
_ALLOWED = "net.ipv4.tcp_allowed_congestion_control"
Addresses = Mapping[str, str | None]  # host -> where the others are to reach it


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The answers of `on_host/surroundings.py` about a host that others are to reach at `address`.
    names: name -> address. visible: CUDA_VISIBLE_DEVICES. shim: the address that a server under the
    server shim listened on, None where there is no shim for the host. firewall: None if only root
    could tell. congestion: TCP's congestion control; None if the kernel does not tell. cubic:
    whether connections may choose cubic. build: of TensorFlow; None without it. fit: what of
    psclust's kernels fits that, as text (`spec/tensorflow_builds.py`); None: not tested yet.
    c_library: whether this TensorFlow has the C library that servers are forked from."""

    host: str
    address: str | None
    names: Mapping[str, str | None]
    proxies: Sequence[str]
    gpus: Sequence[str]
    visible: str | None
    interfaces: Mapping[str, str]
    shim: str | None
    firewall: bool | None
    congestion: str | None
    cubic: bool
    build: str | None
    fit: str | None
    c_library: bool


@dataclass(frozen=True, slots=True)
class Unreached:
    """A connection from one host to another that fails."""

    source: str
    target: str
    address: str
    reason: str


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """A link that could not be measured, although `source` reaches `target`."""

    source: str
    target: str
    reason: str


def thorough(hosts: Iterable[Surroundings], addresses: Addresses) -> list[Finding]:
    """All thorough checks of all hosts, but for the network."""
    return [
        Finding.of(host.host, name, verdict)
        for host in hosts
        for name, check in THOROUGH_CHECKS.items()
        for verdict in check(host, addresses)
    ]


def network(
    hosts: Sequence[str],
    unreached: Sequence[Unreached],
    deaf: Mapping[str, str],
    links: Sequence[Link] = (),
    unmeasured: Sequence[Unmeasured] = (),
) -> list[Finding]:
    """The network between hosts. `deaf`: hosts that could not listen, and why. links: those that
    were measured."""
    found = [
        Finding(
            host,
            "network",
            "problem",
            f"cannot listen for others: {why}",
            "Choose other `ports:`, or an address that the host has.",
        )
        for host, why in deaf.items()
    ]
    speeds = f"; {_speeds(links)}" if links else ""
    for host in hosts:
        failed = [each for each in unreached if each.source == host]
        if failed:
            shown = some_of([f"{each.target} at {each.address} ({each.reason})" for each in failed])
            remedy = "Open the ports of `ports:` between the hosts."
            found.append(Finding(host, "network", "problem", f"cannot reach {shown}", remedy))
        elif host not in deaf:
            text = f"reaches all others{speeds}" if len(hosts) > 1 else "servers can listen"
            found.append(Finding(host, "network", "ok", text))
    found += [
        Finding(
            each.source,
            "network",
            "note",
            f"reaches {each.target}, but the link could not be measured ({each.reason})",
            "Perhaps large packets are lost on the way: compare the MTU of their interfaces.",
        )
        for each in unmeasured
    ]
    return found


def _speeds(links: Sequence[Link]) -> str:
    """Of the one link, or from the slowest to the fastest."""
    slowest, fastest = (choose(links, key=lambda link: link.gbit) for choose in (min, max))
    times = sorted(link.round_trip_s for link in links)
    speeds = _span(1000 * slowest.gbit, 1000 * fastest.gbit, "Mbit/s", 3)
    trips = _span(1000 * times[0], 1000 * times[-1], "ms", 2)
    between = f"between {' and '.join(slowest.hosts)}"
    if len(links) == 1:
        return f"{speeds} and {trips} {between}"
    return f"{speeds}, {trips}; the slowest {between}"


def _gpus(host: Surroundings, addresses: Addresses) -> Iterator[Verdict]:
    counts = Counter(host.gpus)
    text = ", ".join(f"{count} x {name}" for name, count in counts.items()) or (
        "no nvidia-smi to ask" if host.visible else "none"
    )
    yield Verdict(
        "ok", f"{text}; tasks see {host.visible} (CUDA_VISIBLE_DEVICES)" if host.visible else text
    )


def _names(host: Surroundings, addresses: Addresses) -> Iterator[Verdict]:
    """Clusters use addresses; names matter to programs that look hosts up themselves."""
    remedy = "It matters only to programs that use names: add it to /etc/hosts or DNS."
    unknown = [name for name, address in host.names.items() if address is None]
    wrong = {
        name: address
        for name, address in host.names.items()
        if address is not None and addresses.get(name) not in (None, address) and name != address
    }
    if unknown:
        yield Verdict(
            "note", f"does not know the name{'s' * (len(unknown) > 1)} {', '.join(unknown)}", remedy
        )
    if wrong:
        taken = (f"{name} {address}, not {addresses[name]}" for name, address in wrong.items())
        yield Verdict("note", f"takes {', '.join(taken)}", remedy)
    if not unknown and not wrong and host.names:
        yield Verdict("ok", "knows all hosts")


def _proxies(host: Surroundings, addresses: Addresses) -> Iterator[Verdict]:
    if host.proxies:
        yield Verdict(
            "note",
            f"{', '.join(host.proxies)} set",
            "The cluster's own traffic never takes a proxy; a program's may.",
        )
    else:
        yield Verdict("ok", "none")


def _server_shim(host: Surroundings, addresses: Addresses) -> Iterator[Verdict]:
    if host.shim == "127.0.0.1":
        yield Verdict("ok", "servers listen on one interface, to the run's hosts")
        return
    why = (
        "no server shim for this machine" if host.shim is None else "the server shim does not load"
    )
    everywhere = ", ".join(f"{name} {address}" for name, address in host.interfaces.items())
    text = (
        f"{why}: servers would listen on every interface ({everywhere}), to everybody, "
        "and sessions never notice a host that is cut off"
    )
    yield Verdict(
        "problem",
        text,
        "Install gcc, and psclust again, there or here; or close the ports by a firewall.",
    )


def _fork_server(host: Surroundings, addresses: Addresses) -> Iterator[Verdict]:
    if host.build is None:
        return
    if host.c_library:
        yield Verdict("ok", "servers are forked from TensorFlow's C library")
    else:
        yield Verdict(
            "note",
            f"this TensorFlow has no {C_LIBRARY}: each server imports TensorFlow, which takes "
            "seconds and memory",
            _WHAT_FITS,
        )


def _kernels(host: Surroundings, addresses: Addresses) -> Iterator[Verdict]:
    if host.build is None:
        return
    if host.shim is None:  # built by the same compiler
        yield Verdict(
            "note",
            "psclust's kernels and its own wire are not built for this machine: TensorFlow's ops "
            "and wire are used, which take more time and CPU",
            "Install gcc, and psclust again, there or here.",
        )
        return
    if host.fit is None:
        yield Verdict(
            "ok",
            f"build {host.build} of TensorFlow is not known: the first task to start tests whether "
            "psclust's kernels and its own wire fit it",
        )
        return
    fit = fit_of(host.fit)
    if fit.layout is not None:
        yield Verdict("ok", "psclust's kernels and its own wire fit this build of TensorFlow")
    elif fit.kernels:
        yield Verdict(
            "note",
            f"psclust's kernels fit build {host.build} of TensorFlow, its own wire does not: "
            "TensorFlow's wire is used, which takes more time and CPU",
            _WHAT_FITS,
        )
    else:
        yield Verdict(
            "note",
            f"psclust's kernels and its own wire do not fit build {host.build} of TensorFlow: "
            "TensorFlow's ops and wire are used, which take more time and CPU",
            _WHAT_FITS,
        )


def _exposure(host: Surroundings, addresses: Addresses) -> Iterator[Verdict]:
    interface = next(
        (name for name, address in host.interfaces.items() if address == host.address), None
    )
    if host.address is None or interface is None:
        text = f"{host.address or 'its address'} is on none of its interfaces"
        yield Verdict(
            "note", text, "Others must reach it by an address of its own: name one as the host."
        )
        return
    shown, public = f"{host.address} ({interface})", ipaddress.ip_address(host.address).is_global
    if ipaddress.ip_address(host.address).is_loopback or host.firewall:
        yield Verdict("ok", f"{shown}{', behind a firewall' if host.firewall else ''}")
        return
    seen = "no firewall" if host.firewall is False else "a firewall only root could see"
    text = (
        f"{shown}, {seen}: anyone who reaches it{' from the internet' if public else ''} can run "
        "code in the cluster's servers"
    )
    yield Verdict(
        "problem" if public and host.firewall is False else "note",
        text,
        "Let only the cluster's hosts reach its ports.",
    )


def _congestion(host: Surroundings, addresses: Addresses) -> Iterator[Verdict]:
    own = host.congestion
    if own is None:
        return
    if own == "cubic":
        yield Verdict("ok", own)
    elif host.cubic:
        yield Verdict("ok", f"{own}; psclust's own wire uses cubic")
    elif own.startswith("bbr"):
        yield Verdict(
            "note",
            f"{own}, and cubic is not allowed: a step over a shared link takes 5 to 10 % longer",
            f'Run there, as root: sysctl {_ALLOWED}="reno cubic {own}"',
        )
    else:
        yield Verdict("ok", f"{own}; cubic is not allowed")


THOROUGH_CHECKS: Mapping[str, Callable[[Surroundings, Addresses], Iterator[Verdict]]] = {
    "gpus": _gpus,
    "names": _names,
    "proxies": _proxies,
    "server shim": _server_shim,
    "fork server": _fork_server,
    "kernels": _kernels,
    "exposure": _exposure,
    "congestion": _congestion,
}


def _span(low: float, high: float, unit: str, digits: int) -> str:
    """`941 Mbit/s`, or `938 to 941 Mbit/s`."""
    shown = [f"{float(f'{value:.{digits}g}'):g}" for value in (low, high)]
    return f"{' to '.join(dict.fromkeys(shown))} {unit}"
