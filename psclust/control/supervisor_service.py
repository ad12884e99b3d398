"""The gRPC service of a run's supervisor."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from psclust.agent.access import AgentAccess
from psclust.agent.refusal import refuse
from psclust.control import supervisor_pb2 as pb
from psclust.control import supervisor_pb2_grpc
from psclust.control.remote_transport import RemoteTransport, on_all
from psclust.errors import PsclustError, RunEndedError
from psclust.plan.port_request import PortRequest
from psclust.plan.task_plan import Plan
from psclust.spec.cluster import Task
from psclust.supervise import events
from psclust.supervise.supervisor import Supervisor

_WATCH_S = 1.0  # between checks whether a stream's client is still there


class SupervisorService(supervisor_pb2_grpc.SupervisorServicer):  # type: ignore[misc]
    """Handles RPCs on gRPC's threads. The transport is called on the supervisor's thread only;
    calls to agents that change no state, and may be slow, are made here. `detached` is set when the
    run must outlive its `psclust up`."""

    def __init__(
        self, supervisor: Supervisor, transport: RemoteTransport, detached: threading.Event
    ) -> None:
        self._supervisor = supervisor
        self._transport = transport
        self._detached = detached

    def Watch(self, request: pb.Empty, context: grpc.ServicerContext) -> Iterator[pb.Status]:
        version = -1
        while context.is_active():
            newer, status = self._supervisor.wait_for_change(version, _WATCH_S)
            if newer > version:
                version = newer
                yield pb.Status(json=status.to_json())
                if status.ended:
                    return

    def Detach(self, request: pb.Empty, context: grpc.ServicerContext) -> pb.Empty:
        self._detached.set()
        self._supervisor.soon(self._extend_leases)
        return pb.Empty()

    def AddAgents(self, request: pb.Agents, context: grpc.ServicerContext) -> pb.Empty:
        agents = [AgentAccess.from_json(text) for text in request.json]
        with _refusing(context):
            self._supervisor.call(lambda: self._transport.add_agents(agents))
        return pb.Empty()

    def Listen(self, request: pb.ListenRequest, context: grpc.ServicerContext) -> pb.Addresses:
        with _refusing(context):
            agents = self._supervisor.call(self._transport.agents)
            return pb.Addresses(
                addresses=agents[request.host].listen(list(request.addresses), request.ports)
            )

    def Probe(self, request: pb.Addresses, context: grpc.ServicerContext) -> pb.ProbeReply:
        with _refusing(context):
            agents = self._supervisor.call(self._transport.agents)
            found = on_all(agents, lambda agent: agent.probe(list(request.addresses)))
        hosts = [
            pb.ProbeReply.Host(name=name, addresses=each)
            for name, each in zip(agents, found, strict=True)
        ]
        return pb.ProbeReply(hosts=hosts)

    def Reserve(self, request: pb.ReserveRequest, context: grpc.ServicerContext) -> pb.ReserveReply:
        wanted = [
            PortRequest(_task(port.task), port.address, port.wanted, port.host)
            for port in request.ports
        ]
        with _refusing(context):
            ports = self._supervisor.call(lambda: self._transport.reserve(wanted))
        return pb.ReserveReply(ports=[ports[entry.task] for entry in wanted])

    def Apply(self, request: pb.Plan, context: grpc.ServicerContext) -> pb.Status:
        with _refusing(context):
            return pb.Status(json=self._supervisor.apply(Plan.from_json(request.json)).to_json())

    def Explain(self, request: pb.Empty, context: grpc.ServicerContext) -> pb.Explanation:
        with _refusing(context):
            return pb.Explanation(
                findings=[
                    json.dumps(each.to_dict()) for each in self._supervisor.inspection.explain()
                ]
            )

    def Read(self, request: pb.Empty, context: grpc.ServicerContext) -> pb.Readings:
        with _refusing(context):
            return pb.Readings(
                json=[each.to_json() for each in self._supervisor.inspection.readings()]
            )

    def Restart(self, request: pb.TaskId, context: grpc.ServicerContext) -> pb.Empty:
        self._supervisor.post(events.Restart(_task(request)))
        return pb.Empty()

    def Stop(self, request: pb.StopRequest, context: grpc.ServicerContext) -> pb.Empty:
        if request.now:
            self._supervisor.post(events.Kill(request.reason, request.exit_code))
        else:
            stop = events.Stop(
                request.reason,
                ok=request.exit_code == 0,
                exit_code=request.exit_code,
                save=request.save,
            )
            self._supervisor.post(stop)
        return pb.Empty()

    def _extend_leases(self) -> None:
        deadlines = self._supervisor.deadlines()
        if deadlines is not None:
            self._transport.extend_leases(deadlines.detached_s)


@contextmanager
def _refusing(context: grpc.ServicerContext) -> Iterator[None]:
    """End the RPC with an error of its work. UNAVAILABLE, once the run has ended, is a NoRunError
    of the client's."""
    try:
        yield
    except RunEndedError as error:
        context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
    except PsclustError as error:
        refuse(context, error)


def _task(message: pb.TaskId) -> Task:
    return Task(message.job, message.index)
