"""RPCs in, calls to the agent out: the service of an agent."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc

from psclust.agent import agent_pb2 as pb
from psclust.agent import agent_pb2_grpc
from psclust.agent.addresses import own_addresses
from psclust.agent.agent import Agent, LeavingError
from psclust.agent.event_log import Entry
from psclust.agent.refusal import refuse
from psclust.errors import PsclustError
from psclust.plan.port_request import PortRequest
from psclust.plan.task_plan import TaskPlan
from psclust.spec.cluster import Task
from psclust.supervise.events import Exited, NotStarted, Serving, Started
from psclust.transport.ports import listen_in

LOG = logging.getLogger(__name__)

_TURN_S = 0.1  # how often a stream looks for new output
_CHUNK = 1 << 18
_DRAIN_S = 1.0  # for a dead task's last output
_REACH_S = 2.0
_LISTEN_S = 30.0


class AgentService(agent_pb2_grpc.AgentServicer):  # type: ignore[misc]
    """One agent as a service."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._listeners: list[socket.socket] = []

    def Reserve(self, request: pb.ReserveRequest, context: grpc.ServicerContext) -> pb.ReserveReply:
        self._stop_listening()  # on ports that tasks may need
        wanted = [PortRequest(_task(port.task), port.address, port.wanted) for port in request.ports]
        try:
            ports = self._agent.call(lambda transport: transport.reserve(wanted))
        except PsclustError as error:
            refuse(context, error)
        return pb.ReserveReply(ports=[ports[entry.task] for entry in wanted])

    def Release(self, request: pb.TaskId, context: grpc.ServicerContext) -> pb.Nothing:
        with _orders(context):
            self._agent.call(lambda transport: transport.release(_task(request)))
        return pb.Nothing()

    def Start(self, request: pb.StartRequest, context: grpc.ServicerContext) -> pb.Nothing:
        with _orders(context):
            self._agent.start(TaskPlan.from_json(request.plan), request.attempt)
        return pb.Nothing()

    def Signal(self, request: pb.SignalRequest, context: grpc.ServicerContext) -> pb.Nothing:
        with _orders(context):
            self._agent.signal(_task(request.task), "KILL" if request.kill else "TERM")
        return pb.Nothing()

    def Renew(self, request: pb.RenewRequest, context: grpc.ServicerContext) -> pb.Renewed:
        try:
            return pb.Renewed(clock=self._agent.renew(request.until))
        except LeavingError as error:
            refuse(context, error)

    def Reach(self, request: pb.Addresses, context: grpc.ServicerContext) -> pb.Addresses:
        with ThreadPoolExecutor(max_workers=32) as pool:
            reached = list(pool.map(_accepts, request.addresses))
        return pb.Addresses(addresses=[address for address, yes in zip(request.addresses, reached, strict=True) if yes])

    def Listen(self, request: pb.ListenRequest, context: grpc.ServicerContext) -> pb.Addresses:
        found = []
        for address in request.addresses or _own_addresses():
            try:
                listener = listen_in(address, request.ports)
            except PsclustError as error:
                refuse(context, error)
            self._listeners.append(listener)
            found.append(f"{address}:{listener.getsockname()[1]}")
        threading.Timer(_LISTEN_S, self._stop_listening).start()
        return pb.Addresses(addresses=found)

    def _stop_listening(self) -> None:
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener.close()

    def Leave(self, request: pb.Nothing, context: grpc.ServicerContext) -> pb.Nothing:
        self._agent.leave("the launcher said so")
        while context.is_active() and not self._agent.ended.wait(_TURN_S):
            pass
        return pb.Nothing()

    def Follow(self, request: pb.FollowRequest, context: grpc.ServicerContext) -> Iterator[pb.News]:
        LOG.info("%s follows from event %d", context.peer(), request.after)
        after, logs, progress = request.after, _Logs(self._agent, dict(request.offsets)), _Progress(self._agent)
        said = False
        while context.is_active():
            over = self._agent.ended.is_set()  # before the last news are looked for
            entries = self._agent.event_log.after(after, 0 if over else _TURN_S)
            if self._agent.leaving is not None and not said:
                # Before the news of any task's end, which would be taken for the task's own.
                said = True
                yield pb.News(leaving=self._agent.leaving)
            ended = [entry.what.task for entry in entries if isinstance(entry.what, Exited)]
            for task in ended:
                self._agent.drain(task, _DRAIN_S)
            # What a task printed arrives before the news of its end.
            yield from logs.news()
            yield from progress.news()
            for entry in entries:
                yield pb.News(event=_event(entry))
                after = entry.number
            if over:
                return


@contextmanager
def _orders(context: grpc.ServicerContext) -> Iterator[None]:
    """An order to an agent that is leaving is not refused: the launcher goes on giving it until it knows that the host is lost."""
    try:
        yield
    except LeavingError as error:
        context.abort(grpc.StatusCode.UNAVAILABLE, str(error))


class _Logs:
    """What has been sent of each log."""

    def __init__(self, agent: Agent, offsets: dict[str, int]) -> None:
        self._agent = agent
        self._offsets = offsets
        self._lost: dict[tuple[Task, int], int] = {}

    def news(self) -> Iterator[pb.News]:
        attempts = self._agent.attempts()
        latest = dict(attempts)  # the last one of each task wins
        for task, attempt in attempts:
            found = self._agent.output(task)
            yield from self._kept(task, attempt)
            if attempt == latest[task] and found.lost != self._lost.get((task, attempt), 0):
                self._lost[task, attempt] = found.lost
                offset = self._offsets.get(self._agent.folder.log(task, attempt).name, 0)
                unkept = pb.Output(task=_id(task), attempt=attempt, offset=offset, lost=found.lost, unkept=found.unkept)
                yield pb.News(output=unkept)

    def _kept(self, task: Task, attempt: int) -> Iterator[pb.News]:
        path = self._agent.folder.log(task, attempt)
        offset = self._offsets.get(path.name, 0)
        try:
            if path.stat().st_size <= offset:
                return
        except OSError:
            return
        with path.open("rb") as file:
            file.seek(offset)
            while data := file.read(_CHUNK):
                yield pb.News(output=pb.Output(task=_id(task), attempt=attempt, offset=offset, data=data))
                offset += len(data)
        self._offsets[path.name] = offset


class _Progress:
    """What has been sent of each task's progress file. A new attempt may write the very same as the one before."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._sent: dict[Task, tuple[int, bytes]] = {}

    def news(self) -> Iterator[pb.News]:
        for task, attempt in dict(self._agent.attempts()).items():
            path = self._agent.folder.progress(task)
            try:
                known = (attempt, path.read_bytes())
            except OSError:
                continue
            if known != self._sent.get(task):
                self._sent[task] = known
                yield pb.News(progress_file=path.name, content=known[1])


def _event(entry: Entry) -> pb.Event:
    event = pb.Event(number=entry.number, task=_id(entry.what.task))
    match entry.what:
        case Started(pid=pid):
            event.started = pid
        case NotStarted(reason=reason):
            event.not_started = reason
        case Exited(code=code):
            event.exited = code
        case Serving():
            event.serving = True
    return event


def _own_addresses() -> list[str]:
    return sorted(address for addresses in own_addresses().values() for address in addresses)


def _accepts(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=_REACH_S):
            return True
    except OSError:
        return False


def _task(message: pb.TaskId) -> Task:
    return Task(message.job, message.index)


def _id(task: Task) -> pb.TaskId:
    return pb.TaskId(job=task.job, index=task.index)
