"""The calls that a run's supervisor answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator

import grpc

from psclust.agent.access import AgentAccess
from psclust.agent.refusal import refuse
from psclust.control.json_calls import Call, answer_calls
from psclust.control.remote_transport import RemoteTransport, on_all
from psclust.errors import PsclustError, RunEndedError, UsageError
from psclust.plan.port_request import PortRequest
from psclust.plan.task_plan import Plan
from psclust.spec.cluster import Task
from psclust.supervise import events
from psclust.supervise.supervisor import Supervisor
from psclust.transport.faults import Fault, make_fault

_WATCH_S = 1.0  # between checks whether a stream's client is still there
_DONE = "null"


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

    def add_to(self, server: grpc.Server) -> None:
        """Answer from when the server starts."""
        calls = {
            "detach": self._detach,
            "add_agents": self._add_agents,
            "listen": self._listen,
            "probe": self._probe,
            "reserve": self._reserve,
            "apply": self._apply,
            "explain": self._explain,
            "readings": self._readings,
            "restart": self._restart,
            "inject": self._inject,
            "stop": self._stop,
        }
        answers = {name: _refusing(answer) for name, answer in calls.items()}
        answer_calls(server, answers, {"watch": self._watch})

    def _watch(self, request: str, context: grpc.ServicerContext) -> Iterator[str]:
        version = -1
        while context.is_active():
            newer, status = self._supervisor.wait_for_change(version, _WATCH_S)
            if newer > version:
                version = newer
                yield status.to_json()
                if status.ended:
                    return

    def _detach(self, request: str) -> str:
        self._detached.set()
        self._supervisor.soon(self._extend_leases)
        return _DONE

    def _add_agents(self, request: str) -> str:
        agents = [AgentAccess.from_json(text) for text in json.loads(request)]
        self._supervisor.call(lambda: self._transport.add_agents(agents))
        return _DONE

    def _listen(self, request: str) -> str:
        host, addresses, ports = json.loads(request)
        agents = self._supervisor.call(self._transport.agents)
        return json.dumps(agents[host].listen(addresses, ports))

    def _probe(self, request: str) -> str:
        addresses = json.loads(request)
        agents = self._supervisor.call(self._transport.agents)
        found = on_all(agents, lambda agent: agent.probe(addresses))
        return json.dumps(dict(zip(agents, found, strict=True)))

    def _reserve(self, request: str) -> str:
        wanted = [PortRequest(Task(*task), *rest) for task, *rest in json.loads(request)]
        ports = self._supervisor.call(lambda: self._transport.reserve(wanted))
        return json.dumps([ports[entry.task] for entry in wanted])

    def _apply(self, request: str) -> str:
        return self._supervisor.apply(Plan.from_json(request)).to_json()

    def _explain(self, request: str) -> str:
        return json.dumps([each.to_dict() for each in self._supervisor.inspection.explain()])

    def _readings(self, request: str) -> str:
        return json.dumps([each.to_json() for each in self._supervisor.inspection.readings()])

    def _restart(self, request: str) -> str:
        self._supervisor.post(events.Restart(Task(*json.loads(request))))
        return _DONE

    def _inject(self, request: str) -> str:
        host, fields, what = json.loads(request)
        fault, agent = Fault(**fields), self._supervisor.call(self._transport.agents).get(host)
        if agent is None and fault.pid is None:
            raise UsageError(f"{host}: only links of other hosts are cut and slowed.")
        agent.inject(fault) if agent else make_fault(fault)
        self._supervisor.note(what)
        self._supervisor.call(lambda: None)  # the note is on disk before a fault hits this process
        return _DONE

    def _stop(self, request: str) -> str:
        wanted = json.loads(request)
        reason, code = wanted["reason"], wanted["exit_code"]
        self._supervisor.post(
            events.Kill(reason, code)
            if wanted["now"]
            else events.Stop(reason, ok=code == 0, exit_code=code, save=wanted["save"])
        )
        return _DONE

    def _extend_leases(self) -> None:
        deadlines = self._supervisor.deadlines()
        if deadlines is not None:
            self._transport.extend_leases(deadlines.detached_s)


def _refusing(answer: Callable[[str], str]) -> Call:
    """End the call with an error of its work. UNAVAILABLE, once the run has ended, is a NoRunError
    of the client's."""

    def call(request: str, context: grpc.ServicerContext) -> str:
        try:
            return answer(request)
        except RunEndedError as error:
            context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
            raise
        except PsclustError as error:
            refuse(context, error)

    return call
