"""Ports that are free on every host of a run, for tasks that have the same address of 127.0.0.1
everywhere."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from psclust.agent.access import server_name
from psclust.agent.addresses import network
from psclust.control.agent_client import AgentClient, on_all
from psclust.errors import StartError
from psclust.forward.forwarder_process import ForwarderProcess
from psclust.forward.route import Route
from psclust.forward.tls import Identity
from psclust.plan.port_request import PortRequest
from psclust.spec.cluster import Task
from psclust.spec.port_range import parse_port_range
from psclust.transport.server_shim import tls_library

_FREE = (10240, 32767)  # of `auto`: below those that Linux gives to clients
_TRIES = 64  # for one task, at most
_LIMIT_S = 60.0  # for the peer of a client here

Range = tuple[int, int]
Reserve = Callable[[Sequence[PortRequest]], dict[Task, int]]


class ForwardedPorts:
    """What has been given to each task, and the forwarder of this machine, if clients of the run
    are here."""

    def __init__(self) -> None:
        self._given: dict[Task, tuple[str, int]] = {}
        self._here: ForwarderProcess | None = None

    def reserve(
        self, requests: Sequence[PortRequest], agents: Mapping[str, AgentClient], reserve: Reserve
    ) -> dict[Task, int]:
        """`reserve` reserves ports on the hosts of tasks; on all others they are forwarded. Raises
        StartError, and what `reserve` raises."""
        ranges = {request.task: self._kept(request) for request in requests}
        ranges |= spread([each for each in requests if ranges[each.task] is None])
        found: dict[Task, int] = {}
        left = list(requests)
        while left:
            within = {each.task: ranges[each.task] or _FREE for each in left}
            ports = reserve([replace(each, wanted=_text(within[each.task])) for each in left])
            taken = self._forward([(each, ports[each.task]) for each in left], agents)
            for each in left:
                port, (_, last) = ports[each.task], within[each.task]
                if port in taken and port == last:
                    raise StartError(
                        f"{each.what}: no port of {each.wanted} is free on every host; "
                        f"{port} is taken on {taken[port]}. Widen the range, or let psclust "
                        "choose: `ports: auto`."
                    )
                ranges[each.task] = port + 1, last
            found |= ports
            left = [each for each in left if ports[each.task] in taken]
        self._given |= {each.task: (each.on, found[each.task]) for each in requests}
        return found

    def close(self) -> None:
        if self._here is not None:
            self._here.close()

    def _kept(self, request: PortRequest) -> Range | None:
        """The port that the task has already, if that suits."""
        host, port = self._given.get(request.task, ("", 0))
        low, high = parse_port_range(request.wanted)
        fits = host == request.on and (low == 0 or low <= port <= high)
        return (port, port) if fits else None

    def _forward(
        self, wanted: Sequence[tuple[PortRequest, int]], agents: Mapping[str, AgentClient]
    ) -> dict[int, str]:
        """The ports that are taken, and on which host. One host of each network listens: those of
        one machine have the same ports."""
        routes = [
            (agents[each.on].access.network, Route(port, server_name(each.on), each.reached or ""))
            for each, port in wanted
        ]
        alive = {host: agent for host, agent in agents.items() if not agent.is_lost}
        one_of = {agent.access.network: agent for agent in alive.values()}

        def work(agent: AgentClient) -> dict[int, str]:
            at = agent.access.network
            listens = one_of[at] is agent
            taken = agent.forward(
                [replace(route, listens=listens) for its, route in routes if its != at]
            )
            return dict.fromkeys(taken, agent.access.host)

        found: dict[int, str] = {}
        for each in on_all(alive, work):
            found |= each
        client = next((agent.access.client for agent in agents.values()), None)
        if client is not None and network() not in one_of:
            taken = self._forwarder(client).forward([route for _, route in routes])
            found |= dict.fromkeys(taken, "this machine")
        return found

    def _forwarder(self, client: Identity) -> ForwarderProcess:
        if self._here is None:
            self._here = ForwarderProcess(client, tls_library(), _LIMIT_S, None)
        return self._here


def spread(requests: Sequence[PortRequest]) -> dict[Task, Range | None]:
    """A range of its own for each request, within the one that it wants: of two hosts, which know
    nothing of each other, each takes another port. Raises StartError where ports are too few."""
    groups: dict[Range, list[PortRequest]] = {}
    for request in requests:
        groups.setdefault(parse_port_range(request.wanted), []).append(request)
    found: dict[Task, Range | None] = {}
    for (low, high), group in groups.items():
        first, last = (low, high) if low else _FREE
        each = min((last - first + 1) // len(group), _TRIES)
        if each == 0:
            names = ", ".join(request.what for request in group)
            raise StartError(
                f"{names}: {group[0].wanted} has too few ports: with `encrypt`, every task has a "
                "port that is its own on all hosts. Widen the range, or let psclust choose: "
                "`ports: auto`."
            )
        if not low:  # other runs on these hosts begin elsewhere
            first += random.randrange(last - first + 2 - each * len(group))
        for index, request in enumerate(group):
            found[request.task] = first + index * each, first + (index + 1) * each - 1
    return found


def _text(within: Range) -> str:
    low, high = within
    return str(low) if low == high else f"{low}-{high}"
