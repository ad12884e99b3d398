"""The calls that a run's supervisor answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import grpc

from psclust.agent.access import AgentAccess
from psclust.agent.refusal import refuse
from psclust.control.agent_client import on_all
from psclust.control.json_calls import Call, answer_calls
from psclust.control.remote_transport import RemoteTransport
from psclust.errors import PsclustError, RunEndedError, UsageError
from psclust.plan.port_request import PortRequest
from psclust.plan.request_checks import (
    check_address,
    check_addresses,
    check_plan,
    check_port_requests,
)
from psclust.plan.task_plan import Plan
from psclust.reach.ways import check_way
from psclust.spec.cluster import Task
from psclust.spec.typed_json import converter, parse_json
from psclust.supervise import events
from psclust.supervise.supervisor import Supervisor
from psclust.transport.faults import Fault, make_fault

_WATCH_S = 1.0  # between checks whether a stream's client is still there
_Wanted = tuple[tuple[str, int], str, str, str, str | None]


@dataclass(frozen=True, slots=True)
class StopRequest:
    """See `SupervisorClient.stop`."""

    reason: str
    exit_code: int
    now: bool
    save: bool


class SupervisorService:
    """Handles calls on gRPC's threads; requests and replies are those of `SupervisorClient`. The
    transport is called on the supervisor's thread only; calls to agents that change no state, and
    may be slow, are made here. `detached` is set when the run must outlive its `psclust up`."""

    def __init__(
        self, supervisor: Supervisor, transport: RemoteTransport, detached: threading.Event
    ) -> None:
        self._supervisor = supervisor
        self._transport = transport
        self._detached = detached
        self._authority: str | None = None

    def add_to(self, server: grpc.Server) -> None:
        """Answer from when the server starts."""
        calls: dict[str, tuple[Any, Callable[[Any], str | None]]] = {
            "detach": (Any, self._detach),
            "add_agents": (tuple[str, ...], self._add_agents),
            "remove_agents": (tuple[str, ...], self._remove_agents),
            "entrust": (str, self._entrust),
            "entrusted": (Any, self._entrusted),
            "listen": (tuple[str, tuple[str, ...], str], self._listen),
            "probe": (tuple[str, ...], self._probe),
            "reserve": (tuple[_Wanted, ...], self._reserve),
            "apply": (Plan, self._apply),
            "save_and_apply": (Plan, partial(self._apply, save=True)),
            "explain": (Any, self._explain),
            "readings": (Any, self._readings),
            "leave": (tuple[str, str], self._leave),
            "restart": (tuple[str, int], self._restart),
            "inject": (tuple[str, Fault, str], self._inject),
            "stop": (StopRequest, self._stop),
        }
        answers = {name: _answering(name, *call) for name, call in calls.items()}
        answer_calls(server, answers, {"watch": self._watch})

    def _watch(self, request: bytes, context: grpc.ServicerContext) -> Iterator[str]:
        version = -1
        while context.is_active():
            newer, status = self._supervisor.wait_for_change(version, _WATCH_S)
            if newer > version:
                version = newer
                yield status.to_json()
                if status.ended:
                    return

    def _detach(self, request: object) -> None:
        self._detached.set()
        self._supervisor.soon(self._extend_leases)

    def _add_agents(self, request: Sequence[str]) -> None:
        try:
            agents = [AgentAccess.from_json(text) for text in request]
            for access in agents:
                check_address(access.target)
                if access.via is not None:
                    check_way(access.via.reach_by)
        except ValueError as error:
            raise UsageError(f"an agent cannot be reached like that: {error}.") from None
        self._supervisor.call(lambda: self._transport.add_agents(agents))
        if self._detached.is_set():
            self._supervisor.soon(self._extend_leases)

    def _remove_agents(self, request: Sequence[str]) -> None:
        busy = {
            task.host for task in self._supervisor.status().tasks if task.pid is not None
        } & set(request)
        if busy:
            raise UsageError(f"{', '.join(sorted(busy))}: tasks of this run are still there.")
        agents = self._supervisor.call(lambda: self._transport.take_agents(request))
        on_all(agents, lambda agent: agent.stop())

    def _entrust(self, request: str) -> None:
        self._authority = request

    def _entrusted(self, request: object) -> str:
        return json.dumps(self._authority)

    def _listen(self, request: tuple[str, Sequence[str], str]) -> str:
        host, addresses, ports = request
        agent = self._supervisor.call(self._transport.agents).get(host)
        if agent is None:
            raise UsageError(f"{host}: no agent of this run is there.")
        return json.dumps(agent.listen(addresses, ports))

    def _probe(self, request: Sequence[str]) -> str:
        check_addresses(request)
        known = self._supervisor.call(self._transport.agents)
        agents = {host: agent for host, agent in known.items() if not agent.is_lost}
        found = on_all(agents, lambda agent: agent.probe(request))
        return json.dumps(dict(zip(agents, found, strict=True)))

    def _reserve(self, request: Sequence[_Wanted]) -> str:
        wanted = [
            PortRequest(Task(*task), host, ports, on, reached)
            for task, host, ports, on, reached in request
        ]
        check_port_requests(wanted)
        agents = self._supervisor.call(self._transport.agents)
        for each in wanted:
            if each.reached is not None and each.on not in agents:
                raise UsageError(f"{each.what}: no agent is on {each.on}, to reach it there.")
        ports = self._supervisor.call(lambda: self._transport.reserve(wanted))
        return json.dumps([ports[entry.task] for entry in wanted])

    def _apply(self, request: Plan, *, save: bool = False) -> str:
        check_plan(request)
        return self._supervisor.apply(request, save=save).to_json()

    def _explain(self, request: object) -> str:
        return json.dumps(list(map(asdict, self._supervisor.inspection.explain())))

    def _readings(self, request: object) -> str:
        return json.dumps([each.to_json() for each in self._supervisor.inspection.readings()])

    def _leave(self, request: tuple[str, str]) -> None:
        host, reason = request
        if host not in self._supervisor.call(self._transport.agents):
            raise UsageError(f"{host}: no agent of this run is there.")
        self._supervisor.post(events.HostLeaves(host, reason, goes=False))

    def _restart(self, request: tuple[str, int]) -> None:
        self._supervisor.post(events.Restart(Task(*request)))

    def _inject(self, request: tuple[str, Fault, str]) -> None:
        host, fault, what = request
        agent = self._supervisor.call(self._transport.agents).get(host)
        if agent is None and fault.pid is None:
            raise UsageError(f"{host}: only links of other hosts are cut and slowed.")
        agent.inject(fault) if agent else make_fault(fault)
        self._supervisor.post(events.Note(what))
        self._supervisor.call(lambda: None)  # the note is on disk before a fault hits this process

    def _stop(self, request: StopRequest) -> None:
        reason, code = request.reason, request.exit_code
        self._supervisor.post(
            events.Kill(reason, code)
            if request.now
            else events.Stop(reason, ok=code == 0, exit_code=code, save=request.save)
        )

    def _extend_leases(self) -> None:
        deadlines = self._supervisor.deadlines()
        if deadlines is not None:
            self._transport.extend_leases(deadlines.detached_s)


def _answering(name: str, kind: Any, answer: Callable[[Any], str | None]) -> Call:
    """Answer requests whose JSON is of the type `kind`, with JSON or nothing, and end the call with
    an error of the work. UNAVAILABLE, once the run has ended, is a NoRunError of the client's."""
    convert = converter(kind)

    def call(data: bytes, context: grpc.ServicerContext) -> str:
        try:
            request = convert(parse_json(data.decode()))
        except ValueError as error:
            refuse(context, UsageError(f"{name}: the request is not valid: {error}."))
        try:
            return answer(request) or "null"
        except RunEndedError as error:
            context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
            raise
        except PsclustError as error:
            refuse(context, error)

    return call
