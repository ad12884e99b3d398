"""The supervisor's client of one agent: requests in order, updates once each, a lease renewed,
however often the connection breaks."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from enum import Enum
from functools import partial
from typing import Any, TypeVar

import grpc

from psclust.agent import agent_pb2 as pb
from psclust.agent.access import AgentAccess
from psclust.agent.agent_calls import agent_stub
from psclust.agent.lease import (
    LOGIN_S,
    SupervisorLease,
    clock,
    find_loss,
    is_silent,
    renewal_interval_s,
)
from psclust.agent.records import facts_of, plan_message, task_id
from psclust.agent.refusal import Refusal, refusal
from psclust.control.agent_channel import open_channel
from psclust.control.agent_updates import AgentUpdates
from psclust.control.suspend_detector import SuspendDetector
from psclust.errors import StartError
from psclust.forward.route import Route
from psclust.plan.port_request import PortRequest
from psclust.plan.task_plan import TaskPlan
from psclust.rundir.folder import RunFolder
from psclust.spec.cluster import Task
from psclust.supervise.events import Event, HostLost, HostSilent, NotStarted
from psclust.transport.api import SignalName
from psclust.transport.faults import Fault
from psclust.transport.process_facts import HostFacts, Inspected

LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

_REQUEST_S = 20.0
_REPLY_S = 15.0  # for a call whose result is awaited; `up` itself waits for 20 s
_STOP_S = 30.0
# For an agent that may be gone, and for the last updates of one that has stopped.
_STOP_SILENT_S = 3.0
_RETRY_S = 0.2
_RENEW_S = 2.0  # for a renewal, waiting for a connection included
_RETRIED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


class Contact(Enum):
    """LOST and CLOSED are final, but a lost host may still be closed."""

    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    LOST = "lost"  # its tasks may run elsewhere: later updates are ignored
    CLOSED = "closed"


class AgentClient:
    """One agent. Three threads of its own send requests, receive updates, and renew the lease. Any
    thread may call `listen`, `probe` and `inspect`; the rest is for the owner of the transport.
    tasks: their state. post: takes events of tasks and of their host, on any thread."""

    def __init__(
        self,
        access: AgentAccess,
        folder: RunFolder,
        post: Callable[[Event], object],
        suspended: SuspendDetector,
    ) -> None:
        self.access = access
        self._post = post
        self._suspended = suspended
        self.tasks = AgentUpdates(access.host, folder, post)
        self._lease = SupervisorLease(access.lease_s, clock(), LOGIN_S if access.via else 0.0)
        self._closing = ExitStack()
        self._stub = agent_stub(open_channel(access, self._closing))
        self._requests: queue.SimpleQueue[Callable[[], bool] | None] = queue.SimpleQueue()
        self._contact = Contact.CONNECTED
        self._changed = threading.Condition()  # guards `_contact`
        self._why_lost = ""
        self._last_reply = time.monotonic()
        self._renew_now = threading.Event()
        self._watching = threading.Thread(
            target=self._watch, name=f"{access.host} updates", daemon=True
        )
        self._watching.start()
        threading.Thread(target=self._send, name=f"{access.host} requests", daemon=True).start()
        threading.Thread(target=self._renew, name=f"{access.host} lease", daemon=True).start()

    def reserve(self, requests: Sequence[PortRequest]) -> dict[Task, int]:
        """Raises the agent's refusal, or StartError if it does not answer."""
        ports = [
            pb.ReserveRequest.Port(
                task=task_id(entry.task), address=entry.host, wanted=entry.wanted
            )
            for entry in requests
        ]
        reply = self._call(self._stub.Reserve, pb.ReserveRequest(ports=ports))
        return {entry.task: port for entry, port in zip(requests, reply.ports, strict=True)}

    def forward(self, routes: Sequence[Route]) -> list[int]:
        """Forward these ports of its host; returns those that are taken. Raises StartError."""
        request = pb.ForwardRequest(routes=[pb.ForwardRequest.Route(**asdict(r)) for r in routes])
        return list(self._call(self._stub.Forward, request).taken)

    def start(self, plan: TaskPlan, attempt: int) -> None:
        self.tasks.begin(plan.task, attempt)
        request = pb.StartRequest(plan=plan_message(plan), attempt=attempt)
        self._queue(
            self._stub.Start,
            request,
            lambda reason: self._post(NotStarted(plan.task, f"{self.access.host}: {reason}")),
        )

    def signal(self, task: Task, signal: SignalName) -> None:
        self._queue(
            self._stub.Signal,
            pb.SignalRequest(
                task=task_id(task),
                kill=signal == "KILL",
                usr1=signal == "USR1",
                usr2=signal == "USR2",
            ),
        )

    def probe(self, addresses: Sequence[str]) -> list[str]:
        """The addresses that accept a connection from the host. Raises StartError."""
        return list(self._call(self._stub.Probe, pb.Addresses(addresses=addresses)).addresses)

    def listen(self, addresses: Sequence[str], ports: str) -> list[str]:
        """Let the host accept connections for 30 s at these of its addresses (at all if none is
        given), on a port of `ports` (a range, or auto); returns the addresses with ports. Raises
        StartError."""
        return list(
            self._call(
                self._stub.Listen, pb.ListenRequest(addresses=addresses, ports=ports)
            ).addresses
        )

    def inspect(self, processes: Collection[Inspected], addresses: Collection[str]) -> HostFacts:
        """Raises StartError."""
        wanted = [
            pb.InspectRequest.Process(task=each.task, pid=each.pid, stacks=each.stacks)
            for each in processes
        ]
        request = pb.InspectRequest(processes=wanted, addresses=addresses)
        return facts_of(self._call(self._stub.Inspect, request))

    def inject(self, fault: Fault) -> None:
        """Raises the agent's refusal, or StartError."""
        self._call(self._stub.Inject, pb.Fault(**asdict(fault)))

    def extend_lease(self, lease_s: float) -> None:
        self._lease.lease_s = lease_s
        self._renew_now.set()

    @property
    def is_lost(self) -> bool:
        return self._contact is Contact.LOST

    def is_silent(self) -> bool:
        return is_silent(time.monotonic() - self._last_reply, self._lease.lease_s)

    def stop(self) -> bool:
        """Stop the agent with all its tasks, and wait for its last updates; returns whether it has
        taken that. An unreachable agent stops when its lease ends."""
        lost = self._contact is Contact.LOST
        if not self._enter(Contact.CLOSED):
            return True
        self._renew_now.set()
        self._requests.put(None)
        try:
            if not lost:
                self._stub.Stop(pb.Empty(), timeout=_STOP_SILENT_S if self.is_silent() else _STOP_S)
                self._watching.join(_STOP_SILENT_S)
            stopped = True
        except grpc.RpcError as error:
            LOG.warning("%s: could not stop the agent (%s)", self.access.host, error.code().name)
            stopped = False
        self._closing.close()
        return stopped

    # ---- threads

    def _send(self) -> None:
        while (sent := self._requests.get()) is not None:
            while not self._is_over() and not sent():
                self._pause()

    def _sent(
        self, method: Callable[..., object], request: object, refused: Callable[[str], object]
    ) -> bool:
        """False: try again. refused: called with the reason if the agent refuses."""
        try:
            method(request, timeout=_REQUEST_S)
        except grpc.RpcError as error:
            if error.code() in _RETRIED:
                return False
            reason = str(refusal(error) or error.details())
            LOG.warning("%s refused a request: %s", self.access.host, reason)
            refused(reason)
        return True

    def _watch(self) -> None:
        while not self._is_over():
            try:
                for update in self._stub.Watch(self.tasks.rest()):
                    if self._contact is Contact.LOST:
                        return
                    self._last_reply = time.monotonic()
                    self._enter(Contact.CONNECTED)
                    if update.WhichOneof("update") == "stopping":
                        self._look_for_loss(update.stopping)
                    else:
                        self.tasks.apply(update)
            except grpc.RpcError as error:
                self._enter(Contact.DISCONNECTED, error.code().name)
            self._pause()

    def _renew(self) -> None:
        while not self._is_over():
            sent = clock()
            try:
                request = pb.RenewLeaseRequest(until=self._lease.renewal(sent))
                limit = min(_RENEW_S, self._lease.left_s(sent) + _RETRY_S)
                reply = self._stub.RenewLease(request, timeout=limit, wait_for_ready=True)
            except grpc.RpcError as error:
                refused = refusal(error)
                self._look_for_loss(str(refused) if refused is not None else None)
                self._renew_now.wait(_RETRY_S)
            else:
                self._lease.answered(sent, clock(), reply.clock)
                self._last_reply = time.monotonic()
                self._enter(Contact.CONNECTED)
                self._renew_now.wait(renewal_interval_s(self._lease.lease_s))
            self._renew_now.clear()

    def _look_for_loss(self, stopping: str | None) -> None:
        now, contact = clock(), self._lease.contact
        suspended_s = self._suspended.suspended_s(contact, now)
        loss = find_loss(
            self._lease.lease_s,
            now - contact,
            suspended_s,
            over=self._lease.is_over(now),
            stopping=stopping,
        )
        if loss is not None and self._enter(Contact.LOST, loss.reason):
            self._post(HostLost(self.access.host, loss.reason, loss.all_hosts))

    def _enter(self, contact: Contact, why: str = "") -> bool:
        """Whether that is a change."""
        with self._changed:
            before = self._contact
            if (
                contact is before
                or before is Contact.CLOSED
                or (before is Contact.LOST and contact is not Contact.CLOSED)
            ):
                return False
            if contact is Contact.LOST:
                self._why_lost = why
            self._contact = contact
            self._changed.notify_all()
        LOG.info("%s: %s%s", self.access.host, contact.value, f" ({why})" if why else "")
        if contact in (Contact.CONNECTED, Contact.DISCONNECTED):
            self._post(HostSilent(self.access.host, contact is Contact.DISCONNECTED))
        return True

    def _is_over(self) -> bool:
        return self._contact in (Contact.LOST, Contact.CLOSED)

    def _pause(self) -> None:
        with self._changed:
            self._changed.wait_for(self._is_over, _RETRY_S)

    # ---- calls

    def _queue(
        self,
        method: Callable[..., object],
        request: object,
        refused: Callable[[str], object] = lambda reason: None,
    ) -> None:
        self._requests.put(partial(self._sent, method, request, refused))

    def _call(self, method: Any, request: object) -> Any:
        # An agent that stops still answers for a moment.
        self._raise_if_lost()
        call = method.future(request, timeout=_REPLY_S, wait_for_ready=True)
        while True:
            try:
                return call.result(timeout=_RETRY_S)
            except grpc.FutureTimeoutError:
                if self._contact is Contact.LOST:
                    call.cancel()
                    raise StartError(f"{self.access.host}: {self._why_lost}.") from None
            except grpc.RpcError as error:
                self._raise_if_lost()
                if (refused := refusal(error)) is not None:
                    raise Refusal(f"{self.access.host}: {refused}", refused.exit_code) from None
                raise StartError(
                    f"{self.access.host}: "
                    f"its agent at {self.access.target} does not answer ({error.details()})."
                ) from None

    def _raise_if_lost(self) -> None:
        if self._contact is Contact.LOST:
            raise StartError(f"{self.access.host}: {self._why_lost}.") from None


def on_all(agents: Mapping[str, AgentClient], call: Callable[[AgentClient], _T]) -> list[_T]:
    """Call all agents at once; raises the first error, in their order."""
    with ThreadPoolExecutor(max_workers=max(len(agents), 1)) as pool:
        return list(pool.map(call, agents.values()))
