"""RPCs in, calls to the supervisor out."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import grpc

from psclust.agent.access import AgentAccess
from psclust.agent.refusal import refuse
from psclust.control import supervisor_pb2 as pb
from psclust.control import supervisor_pb2_grpc
from psclust.control.remote_transport import RemoteTransport
from psclust.errors import PsclustError
from psclust.plan.port_request import PortRequest
from psclust.plan.task_plan import Plan
from psclust.spec.cluster import Task
from psclust.supervise import events
from psclust.supervise.supervisor import Supervisor

# A stream looks this often whether its reader is still there (seconds); gRPC's own callback tells sooner.
_WATCH_INTERVAL = 1.0


class SupervisorService(supervisor_pb2_grpc.SupervisorServicer):  # type: ignore[misc]
    """One run's supervisor, and its agents on other hosts, as a service."""

    def __init__(self, supervisor: Supervisor, transport: RemoteTransport, detached: threading.Event) -> None:
        self._supervisor = supervisor
        self._transport = transport
        self._detached = detached

    def Watch(self, request: pb.Empty, context: grpc.ServicerContext) -> Iterator[pb.Status]:
        version = -1
        while context.is_active():
            newer, status = self._supervisor.wait_for_change(version, _WATCH_INTERVAL)
            if newer > version:
                version = newer
                yield pb.Status(json=status.to_json())
                if status.ended:
                    return

    def Detach(self, request: pb.Empty, context: grpc.ServicerContext) -> pb.Empty:
        self._detached.set()
        deadlines = self._supervisor.deadlines()
        if deadlines is not None:
            self._transport.extend_lease(deadlines.detached_s)
        return pb.Empty()

    def Connect(self, request: pb.Agents, context: grpc.ServicerContext) -> pb.Empty:
        self._transport.connect([AgentAccess.from_json(text) for text in request.json])
        return pb.Empty()

    def Listen(self, request: pb.ListenRequest, context: grpc.ServicerContext) -> pb.ReachRequest:
        try:
            return pb.ReachRequest(addresses=self._transport.listen(request.host, list(request.addresses), request.ports))
        except PsclustError as error:
            refuse(context, error)

    def Reach(self, request: pb.ReachRequest, context: grpc.ServicerContext) -> pb.ReachReply:
        try:
            reached = self._transport.reach(list(request.addresses))
        except PsclustError as error:
            refuse(context, error)
        return pb.ReachReply(hosts=[pb.ReachReply.Host(name=name, addresses=found) for name, found in reached.items()])

    def Reserve(self, request: pb.ReserveRequest, context: grpc.ServicerContext) -> pb.ReserveReply:
        wanted = [PortRequest(_task(port.task), port.host, port.wanted, port.on) for port in request.ports]
        try:
            ports = self._supervisor.reserve(wanted)
        except PsclustError as error:
            refuse(context, error)
        return pb.ReserveReply(ports=[ports[entry.task] for entry in wanted])

    def Apply(self, request: pb.Plan, context: grpc.ServicerContext) -> pb.Status:
        try:
            return pb.Status(json=self._supervisor.apply(Plan.from_json(request.json)).to_json())
        except PsclustError as error:
            refuse(context, error)

    def Restart(self, request: pb.TaskRequest, context: grpc.ServicerContext) -> pb.Empty:
        self._supervisor.post(events.Restart(_task(request)))
        return pb.Empty()

    def Stop(self, request: pb.StopRequest, context: grpc.ServicerContext) -> pb.Empty:
        if request.now:
            self._supervisor.post(events.Kill(request.reason))
        else:
            self._supervisor.post(events.Stop(request.reason, ok=request.exit_code == 0, exit_code=request.exit_code))
        return pb.Empty()


def _task(message: pb.TaskRequest) -> Task:
    return Task(message.job, message.index)
