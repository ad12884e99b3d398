"""The gRPC service of an agent."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import compress

import grpc

from psclust.agent import agent_pb2 as pb
from psclust.agent.addresses import every_own_address
from psclust.agent.agent import Agent, StoppingError
from psclust.agent.records import facts_message, plan_of, task_of
from psclust.agent.update_stream import stream_updates
from psclust.errors import UsageError
from psclust.forward.forwarder_process import ForwarderProcess
from psclust.forward.route import Route
from psclust.plan.port_request import PortRequest
from psclust.plan.request_checks import (
    check_addresses,
    check_attempt,
    check_host,
    check_moment,
    check_port_requests,
    check_ports,
    check_task_name,
    check_task_plan,
)
from psclust.spec.cluster import Task
from psclust.spec.port_range import is_fixed
from psclust.transport.api import SignalName
from psclust.transport.faults import Fault, make_fault
from psclust.transport.gpu_usage import GpuReader
from psclust.transport.ports import listen_in
from psclust.transport.process_facts import Inspected, accepts, inspect_host

LOG = logging.getLogger(__name__)

_WAIT_S = 0.1  # between checks whether a client that waits is still there
_LISTEN_S = 30.0


class AgentService:
    """Turns RPCs into calls of an Agent; `agent_calls.serve_agent` refuses with a PsclustError that
    they raise. sent_reason: set when the supervisor has been sent the agent's reason to stop.
    forwarder: of an encrypted run."""

    def __init__(self, agent: Agent, forwarder: ForwarderProcess | None = None) -> None:
        self.sent_reason = threading.Event()
        self._agent = agent
        self._forwarder = forwarder
        self._listeners: list[socket.socket] = []
        self._listen_until = threading.Timer(0.0, self._stop_listening)
        self._gpus = GpuReader()

    def Reserve(self, request: pb.ReserveRequest, context: grpc.ServicerContext) -> pb.ReserveReply:
        self._stop_listening()  # on ports that tasks may need
        wanted = [
            PortRequest(Task(port.task.job, port.task.index), port.address, port.wanted)
            for port in request.ports
        ]
        check_port_requests(wanted)
        if self._forwarder is not None:
            self._forwarder.forget([int(each.wanted) for each in wanted if is_fixed(each.wanted)])
        ports = self._agent.call(lambda transport: transport.reserve(wanted))
        return pb.ReserveReply(ports=[ports[entry.task] for entry in wanted])

    def Forward(self, request: pb.ForwardRequest, context: grpc.ServicerContext) -> pb.ForwardReply:
        if self._forwarder is None:
            raise UsageError("This run is not encrypted, so its hosts forward no ports.")
        for each in request.routes:
            check_ports(str(each.port))
        routes = [
            Route(each.port, each.host, each.address, each.listens) for each in request.routes
        ]
        return pb.ForwardReply(taken=self._forwarder.forward(routes))

    def Start(self, request: pb.StartRequest, context: grpc.ServicerContext) -> pb.Empty:
        plan = plan_of(request.plan)
        check_task_plan(plan)
        check_attempt(request.attempt)
        with _retried_when_stopping(context):
            self._agent.start(plan, request.attempt)
        return pb.Empty()

    def Signal(self, request: pb.SignalRequest, context: grpc.ServicerContext) -> pb.Empty:
        task = task_of(request.task)
        with _retried_when_stopping(context):
            self._agent.signal(task, _signal(request))
        return pb.Empty()

    def RenewLease(
        self, request: pb.RenewLeaseRequest, context: grpc.ServicerContext
    ) -> pb.RenewLeaseReply:
        check_moment(request.until)
        try:
            return pb.RenewLeaseReply(clock=self._agent.renew(request.until))
        except StoppingError:
            self.sent_reason.set()
            raise

    def Probe(self, request: pb.Addresses, context: grpc.ServicerContext) -> pb.Addresses:
        check_addresses(request.addresses)
        with ThreadPoolExecutor(max_workers=32) as pool:
            accepted = pool.map(accepts, request.addresses)
            return pb.Addresses(addresses=compress(request.addresses, accepted))

    def Inspect(self, request: pb.InspectRequest, context: grpc.ServicerContext) -> pb.InspectReply:
        for each in request.processes:
            check_task_name(each.task)
        check_addresses(request.addresses)
        processes = [Inspected(each.task, "", each.pid, each.stacks) for each in request.processes]
        ways = {
            each: self._forwarder.way(each) if self._forwarder is not None else each
            for each in request.addresses
        }
        facts = inspect_host(processes, ways, self._agent.folder, self._gpus.processes())
        return facts_message(facts)

    def Inject(self, request: pb.Fault, context: grpc.ServicerContext) -> pb.Empty:
        pid = request.pid if request.HasField("pid") else None
        make_fault(Fault(request.kind, pid, request.for_s, request.rate))
        return pb.Empty()

    def Listen(self, request: pb.ListenRequest, context: grpc.ServicerContext) -> pb.Addresses:
        found = []
        self._listen_until.cancel()
        self._listen_until = threading.Timer(_LISTEN_S, self._stop_listening)
        self._listen_until.start()
        check_ports(request.ports)
        for address in request.addresses or every_own_address():
            check_host(address)
            listener = listen_in(address, request.ports)
            self._listeners.append(listener)
            found.append(f"{address}:{listener.getsockname()[1]}")
        return pb.Addresses(addresses=found)

    def Stop(self, request: pb.Empty, context: grpc.ServicerContext) -> pb.Empty:
        self._agent.stop("requested by the supervisor")
        while context.is_active() and not self._agent.stopped.wait(_WAIT_S):
            pass
        return pb.Empty()

    def Watch(self, request: pb.WatchRequest, context: grpc.ServicerContext) -> Iterator[pb.Update]:
        LOG.info("%s watches from event %d on", context.peer(), request.after)
        with self._agent.watched():
            for update in stream_updates(self._agent, request, context.is_active):
                yield update
                if update.WhichOneof("update") == "stopping":
                    self.sent_reason.set()

    def _stop_listening(self) -> None:
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener.close()


@contextmanager
def _retried_when_stopping(context: grpc.ServicerContext) -> Iterator[None]:
    """Answer UNAVAILABLE while the agent is stopping: the client tries again until it knows that
    the host is lost."""
    try:
        yield
    except StoppingError as error:
        context.abort(grpc.StatusCode.UNAVAILABLE, str(error))


def _signal(request: pb.SignalRequest) -> SignalName:
    if request.kill:
        return "KILL"
    return "USR1" if request.usr1 else "USR2" if request.usr2 else "TERM"
