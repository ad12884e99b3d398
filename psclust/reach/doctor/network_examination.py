"""Has hosts listen, dial each other and measure the links between them, for the `network` check of
`psclust doctor`."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

from psclust.reach.doctor.finding import Finding, succeeded
from psclust.reach.doctor.thorough_checks import Unmeasured, Unreached, network
from psclust.reach.fan_out import PARALLEL, attempt_on_each, fan_out
from psclust.reach.python.host_python import HostPython
from psclust.rundir.links_file import Link

_DIAL_S = 3.0  # for one host to reach another
_MEASURE_S = 1.0  # for the link of two hosts
_EVERY_PAIR = 4  # hosts of which every pair is measured, at most

PortRange = tuple[int, int]  # first and last; (0, 0): any
Pair = tuple[str, str]
Door = tuple[str, int]  # the address and port of a host's listener


def examine_network(
    pythons: Mapping[str, HostPython], addresses: Mapping[str, str], ranges: Sequence[PortRange]
) -> tuple[list[Finding], list[Link]]:
    """Whether the hosts reach each other, and the links that were measured. `ranges`: the ports of
    the cluster's servers."""
    token = secrets.token_hex(8)
    listen = {"work": "listen", "ranges": list(ranges), "token": token}
    listening = attempt_on_each(
        list(pythons), lambda host: _listen(pythons[host], {**listen, "address": addresses[host]})
    )
    found: list[Finding] = []
    ports = succeeded(listening, "network", found)
    deaf = {
        host: f"{addresses[host]}: {one}"
        for host, ones in ports.items()
        for one in ones
        if isinstance(one, str)
    }
    targets = [
        (host, addresses[host], one)
        for host, ones in ports.items()
        for one in ones
        if isinstance(one, int)
    ]
    dialled = succeeded(
        attempt_on_each(list(ports), lambda host: _dial(pythons[host], host, targets, token)),
        "network",
        found,
    )
    unreached = [each for failed in dialled.values() for each in failed]
    doors: dict[str, Door] = {}
    for host, address, port in targets:
        if host in dialled:
            doors.setdefault(host, (address, port))
    closed = {(each.source, each.target) for each in unreached}
    links, unmeasured = _measure_links(pythons, doors, closed, token)
    return found + network(list(dialled), unreached, deaf, links, unmeasured), links


def _measure_links(
    pythons: Mapping[str, HostPython], doors: Mapping[str, Door], closed: set[Pair], token: str
) -> tuple[list[Link], list[Unmeasured]]:
    """closed: pairs of which the first host does not reach the second."""
    links: list[Link] = []
    unmeasured: list[Unmeasured] = []
    measure = partial(_measure, pythons, doors, token)
    for together in measuring_rounds(list(doors)):
        pairs = [pair for pair in together if pair not in closed]
        outcomes = dict(fan_out(pairs, measure, parallel=PARALLEL))
        for host, other in pairs:
            outcome = outcomes[host, other]
            if isinstance(outcome, Link):
                links.append(outcome)
            else:
                why = str(outcome).removeprefix(f"{host}: ").rstrip(".")
                unmeasured.append(Unmeasured(host, other, why))
    return links, unmeasured


def measuring_rounds(hosts: Sequence[str]) -> list[list[Pair]]:
    """The pairs whose links are measured, those of one round at the same time: each host is in one
    pair of a round at most. Of many hosts, each one and the next, and the last one and the
    first."""
    left: list[Pair] = (
        list(combinations(hosts, 2))
        if len(hosts) <= _EVERY_PAIR
        else list(zip(hosts, [*hosts[1:], hosts[0]], strict=True))
    )
    rounds: list[list[Pair]] = []
    while left:
        busy: set[str] = set()
        together, later = [], []
        for pair in left:
            if busy.isdisjoint(pair):
                together.append(pair)
                busy.update(pair)
            else:
                later.append(pair)
        rounds.append(together)
        left = later
    return rounds


def _listen(python: HostPython, question: dict[str, Any]) -> list[int | str]:
    """A port for each range, or why there is none."""
    return [each.get("port") or str(each["error"]) for each in python.ask("mesh", question)]


def _dial(
    python: HostPython, host: str, targets: Sequence[tuple[str, str, int]], token: str
) -> list[Unreached]:
    others = [target for target in targets if target[0] != host]
    answer: list[Any] = python.ask(
        "mesh", {"work": "dial", "targets": others, "timeout_s": _DIAL_S, "token": token}
    )
    return [
        Unreached(host, name, f"{address}:{port}", reason) for name, address, port, reason in answer
    ]


def _measure(
    pythons: Mapping[str, HostPython], doors: Mapping[str, Door], token: str, pair: Pair
) -> Link:
    host, other = pair
    address, port = doors[other]
    question = {"work": "measure", "address": address, "port": port, "token": token}
    answer = pythons[host].ask("mesh", {**question, "timeout_s": _MEASURE_S})
    return Link(pair, answer["gbit"], answer["round_trip_s"], time.time())
