"""The launcher's end of one agent: orders out, in order; news in, each once, however often the connection breaks."""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import grpc

from psclust.agent import agent_pb2 as pb
from psclust.agent import agent_pb2_grpc
from psclust.agent.access import AgentAccess
from psclust.agent.lease import LOG_IN_S, LauncherLease, clock, interval
from psclust.agent.refusal import Refusal, refusal
from psclust.control.agent_channel import AgentChannel
from psclust.control.suspend_detector import SuspendDetector, start_suspend_detector
from psclust.errors import StartError
from psclust.plan.port_request import PortRequest
from psclust.plan.task_plan import TaskPlan
from psclust.rundir.atomic_file import write_atomically
from psclust.rundir.folder import RunFolder
from psclust.spec.cluster import Task
from psclust.transport.api import Listener, Output
from psclust.transport.log_pump import append

LOG = logging.getLogger(__name__)

_CALL_S = 20.0
_ANSWER_S = 15.0  # for an answer that somebody waits for; their own patience ends after 20 s
_LEAVE_S = 3.0  # for an agent to hear that it is to leave, and for it to go when it has ended all
_SILENT_S = 10.0  # without a word, an agent is not worth waiting for
_AGAIN_S = 0.2  # between attempts to reach an agent
_RENEW_S = 2.0  # for a renewal to be answered; it waits for a connection


class HostListener(Listener, Protocol):
    """Who is told of a host's tasks, of the loss of a host, of whether there is contact with it, and of what a user should know."""

    def host_lost(self, host: str, reason: str, *, all_hosts: bool = False) -> None:
        """all_hosts: for a reason that is here, so that all other hosts are lost, too."""

    def host_silent(self, host: str, silent: bool) -> None: ...

    def note(self, text: str) -> None:
        """For the user to read, once."""


@dataclass(frozen=True, slots=True)
class _Order:
    """`refused` is told why, where it is."""

    call: Callable[[], object]
    refused: Callable[[str], object]


class AgentClient:
    """Threads of its own: one sends orders, one reads news and puts output and progress into `folder`, one renews the lease."""

    def __init__(
        self, access: AgentAccess, folder: RunFolder, listener: HostListener, suspend_detector: SuspendDetector | None = None
    ) -> None:
        self.access = access
        self._folder = folder
        self._listener = listener
        self._suspend_detector = suspend_detector or start_suspend_detector()
        self._lease = LauncherLease(access.lease_s, clock(), LOG_IN_S if access.via else 0.0)
        self._connection = AgentChannel(access)
        self._stub = agent_pb2_grpc.AgentStub(self._connection.channel)
        self._orders: queue.SimpleQueue[_Order | None] = queue.SimpleQueue()
        self._after = 0
        self._offsets: dict[str, int] = {}
        self._attempts: dict[Task, int] = {}
        self._outputs: dict[tuple[Task, int], Output] = {}
        self._lost_there: dict[tuple[Task, int], int] = {}
        self._serving: set[Task] = set()
        self._progress: dict[Task, str] = {}
        self._heard = time.monotonic()
        self._cut = False  # as the listener knows it
        self._closed = threading.Event()
        self._renew_now = threading.Event()
        self._lost = threading.Event()  # given up: its tasks may run elsewhere, and what it still says is of no account
        self._why_lost = ""
        self._following = threading.Thread(target=self._follow, name=f"{access.host} news", daemon=True)
        self._following.start()
        threading.Thread(target=self._send, name=f"{access.host} orders", daemon=True).start()
        threading.Thread(target=self._renew, name=f"{access.host} lease", daemon=True).start()

    # ---- what a transport can do, for this host

    def reserve(self, requests: Sequence[PortRequest]) -> dict[Task, int]:
        """Raises what the agent says, or StartError where it does not answer."""
        ports = [pb.ReserveRequest.Port(task=_id(entry.task), address=entry.host, wanted=entry.wanted) for entry in requests]
        reply = self._call(self._stub.Reserve, pb.ReserveRequest(ports=ports))
        return {entry.task: port for entry, port in zip(requests, reply.ports, strict=True)}

    def release(self, task: Task) -> None:
        self._order(self._stub.Release, _id(task))

    def start(self, plan: TaskPlan, attempt: int) -> None:
        self._serving.discard(plan.task)
        self._attempts[plan.task] = attempt
        self._progress.pop(plan.task, None)
        request = pb.StartRequest(plan=plan.to_json(), attempt=attempt)
        self._order(self._stub.Start, request, lambda reason: self._listener.not_started(plan.task, f"{self.access.host}: {reason}"))

    def signal(self, task: Task, signal: Literal["TERM", "KILL"]) -> None:
        self._order(self._stub.Signal, pb.SignalRequest(task=_id(task), kill=signal == "KILL"))

    def output(self, task: Task) -> Output:
        return self._outputs.get((task, self._attempts.get(task, 0)), Output())

    def serving(self, task: Task) -> bool:
        return task in self._serving

    def progress(self, task: Task) -> str | None:
        """What the task's progress file holds."""
        return self._progress.get(task)

    def reach(self, addresses: Sequence[str]) -> list[str]:
        """Which of the addresses accept a connection from the host. Raises StartError."""
        return list(self._call(self._stub.Reach, pb.Addresses(addresses=addresses)).addresses)

    def listen(self, addresses: Sequence[str], ports: str) -> list[str]:
        """Has the host accept connections at these of its addresses, at all where none is given, for half a minute, on a port of `ports` (a
        range, or auto); returns them with it. Raises StartError."""
        return list(self._call(self._stub.Listen, pb.ListenRequest(addresses=addresses, ports=ports)).addresses)

    def extend_lease(self, seconds: float) -> None:
        """From now on the agent stays for `seconds` without a word."""
        self._lease.extend(seconds)
        self._renew_now.set()

    def leave(self, timeout: float = 30.0) -> None:
        """Have the agent end everything, and wait until it has gone; where it cannot be told, it goes by itself when its lease is over."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._renew_now.set()
        self._orders.put(None)
        try:
            if not self._lost.is_set():
                self._stub.Leave(pb.Nothing(), timeout=_LEAVE_S if self.is_silent() else timeout)
                # Its stream of news ends with it.
                self._following.join(_LEAVE_S)
        except grpc.RpcError as error:
            LOG.warning("%s: its agent could not be told to leave (%s)", self.access.host, error.code().name)
        self._connection.close()

    def is_silent(self) -> bool:
        """Whether it has not been heard for so long that it is not worth waiting for."""
        return time.monotonic() - self._heard > min(_SILENT_S, self._lease.lease_s)

    # ---- threads

    def _send(self) -> None:
        while (order := self._orders.get()) is not None:
            while not self._is_over():
                try:
                    order.call()
                except grpc.RpcError as error:
                    if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                        LOG.warning("%s refused an order: %s", self.access.host, error.details())
                        order.refused(str(error.details()))
                        break
                    self._closed.wait(_AGAIN_S)
                else:
                    break

    def _follow(self) -> None:
        while not self._is_over():
            try:
                for news in self._stub.Follow(pb.FollowRequest(after=self._after, offsets=self._offsets)):
                    if self._lost.is_set():
                        return
                    self._heard = time.monotonic()
                    self._say_whether_cut(False)
                    self._take(news)
            except grpc.RpcError as error:
                if not self._is_over():
                    self._say_whether_cut(True, error.code().name)
            self._closed.wait(_AGAIN_S)

    def _is_over(self) -> bool:
        return self._closed.is_set() or self._lost.is_set()

    def _say_whether_cut(self, cut: bool, why: str = "") -> None:
        if self._cut != cut:
            self._cut = cut
            LOG.info("%s: %s", self.access.host, f"not connected ({why})" if cut else "connected again")
            self._listener.host_silent(self.access.host, cut)

    def _renew(self) -> None:
        while not self._is_over():
            sent = clock()
            try:
                reply = self._stub.Renew(pb.RenewRequest(until=self._lease.grant(sent)), timeout=_RENEW_S, wait_for_ready=True)
            except grpc.RpcError as error:
                if (refused := refusal(error)) is not None:
                    self._give_up(f"its agent has left: {refused}")
                elif self._lease.is_over(clock()):
                    self._give_up(f"its agent has not answered for {clock() - self._lease.contact:.0f} s")
                self._renew_now.wait(_AGAIN_S)
            else:
                self._lease.answered(sent, clock(), reply.clock)
                self._heard = time.monotonic()
                self._say_whether_cut(False)
                self._renew_now.wait(interval(self._lease.lease_s))
            self._renew_now.clear()

    def _give_up(self, reason: str) -> None:
        if self._is_over():
            return
        self._why_lost = reason
        self._lost.set()
        lease_s = self._lease.lease_s
        asleep = self._suspend_detector.suspended_s(self._lease.contact, clock())
        if asleep < lease_s:
            self._listener.host_lost(self.access.host, reason)
            return
        found = f"the supervisor stood still for {asleep:.0f} s (its machine slept, or it was stopped)"
        cure = "Keep the machine awake, raise `deadlines.lease`, or leave the run alone with `up -d`, which goes by `deadlines.detached`"
        text = f"{found}, and without a word for {lease_s:g} s the agents on the hosts end their tasks. {cure}"
        self._listener.host_lost(self.access.host, text, all_hosts=True)

    def _take(self, news: pb.News) -> None:
        kind = news.WhichOneof("news")
        if kind == "event":
            if news.event.number > self._after:
                self._after = news.event.number
                self._tell(news.event)
        elif kind == "output":
            self._keep(news.output)
        elif kind == "leaving":
            self._give_up(f"its agent has left: {news.leaving}")
        else:
            self._keep_progress(os.path.basename(news.progress_file), news.content.decode("utf-8", "replace"))

    def _tell(self, event: pb.Event) -> None:
        task, kind = Task(event.task.job, event.task.index), event.WhichOneof("what")
        if kind == "started":
            self._listener.started(task, event.started)
        elif kind == "not_started":
            self._listener.not_started(task, event.not_started)
        elif kind == "exited":
            self._listener.exited(task, event.exited)
        else:
            self._serving.add(task)

    def _keep_progress(self, name: str, text: str) -> None:
        """The file is for who looks at the run; the run itself goes by `progress`."""
        job, _, index = name.removesuffix(".json").rpartition("-")
        task = Task(job, int(index))
        self._progress[task] = text
        path = self._folder.progress(task)
        try:
            write_atomically(path, text)
        except OSError as error:
            self._listener.note(f"{path.parent}: {error.strerror}; the run goes on, how far its tasks are is not shown")

    def _keep(self, output: pb.Output) -> None:
        task = Task(output.task.job, output.task.index)
        path = self._folder.log(task, output.attempt)
        known = self._offsets.get(path.name, 0)
        data = output.data[known - output.offset :] if output.offset < known else output.data
        self._offsets[path.name] = known + len(data)
        key = task, output.attempt
        fresh = output.lost - self._lost_there.get(key, 0)
        if fresh > 0:
            # The host's disk is full; what its agent still has of it is kept here.
            self._lost_there[key] = output.lost
            if (missing := fresh - len(output.unkept)) > 0:
                data += f"\n[psclust: {missing} bytes found no room on {self.access.host}]\n".encode()
            data += output.unkept[-fresh:]
            self._listener.note(f"{self.access.host}: no space left for what tasks print; the run goes on, output is kept here alone")
        self._outputs[key] = self._outputs.get(key, Output()).plus(data, append(path, data))

    def _order(self, method: Callable[..., object], request: object, refused: Callable[[str], object] = lambda reason: None) -> None:
        self._orders.put(_Order(lambda: method(request, timeout=_CALL_S), refused))

    def _call(self, method: Any, request: object) -> Any:
        call = method.future(request, timeout=_ANSWER_S, wait_for_ready=True)
        while True:
            try:
                return call.result(timeout=_AGAIN_S)
            except grpc.FutureTimeoutError:
                if self._lost.is_set():
                    call.cancel()
                    raise StartError(f"{self.access.host}: {self._why_lost}.") from None
            except grpc.RpcError as error:
                if self._lost.is_set():
                    raise StartError(f"{self.access.host}: {self._why_lost}.") from None
                if (refused := refusal(error)) is not None:
                    raise Refusal(f"{self.access.host}: {refused}", refused.exit_code) from None
                raise StartError(f"{self.access.host}: its agent at {self.access.target} does not answer ({error.details()}).") from None


def _id(task: Task) -> pb.TaskId:
    return pb.TaskId(job=task.job, index=task.index)
