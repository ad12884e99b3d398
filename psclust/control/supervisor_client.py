"""The launcher's end of the service: what verbs call. A refusal comes back as the PsclustError it was."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import grpc

from psclust.agent.access import AgentAccess
from psclust.agent.refusal import refusal
from psclust.control import supervisor_pb2 as pb
from psclust.control import supervisor_pb2_grpc
from psclust.errors import NoRunError
from psclust.plan.port_request import PortRequest
from psclust.plan.task_plan import Plan
from psclust.rundir.folder import RunFolder
from psclust.rundir.status import RunStatus
from psclust.spec.cluster import Task

_CALL_DEADLINE = 20.0
_POLL = 0.005
_T = TypeVar("_T")


class SupervisorClient(AbstractContextManager["SupervisorClient"]):
    """One run's supervisor. Calls have deadlines; a supervisor that is gone raises NoRunError."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        # A proxy in the environment is none of a Unix socket's business, and a run's supervisor is always this user's.
        options = [("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        self._channel = grpc.insecure_channel(folder.socket_address(), options=[*options, ("grpc.default_authority", "localhost")])
        self._stub = supervisor_pb2_grpc.SupervisorStub(self._channel)

    def __exit__(self, *details: object) -> None:
        self._channel.close()

    def watch(self) -> Iterator[RunStatus]:
        """Statuses as they change, the last one `ended`. Ends early when the supervisor is gone."""
        try:
            for message in self._stub.Watch(pb.Empty()):
                yield RunStatus.from_json(message.json)
        except grpc.RpcError:
            return

    def detach(self) -> None:
        self._call(lambda: self._stub.Detach(pb.Empty(), timeout=_CALL_DEADLINE))

    def connect(self, agents: Sequence[AgentAccess]) -> None:
        """Hand over agents on other hosts."""
        self._call(lambda: self._stub.Connect(pb.Agents(json=[access.to_json() for access in agents]), timeout=_CALL_DEADLINE))

    def listen(self, host: str, addresses: Sequence[str], ports: str) -> list[str]:
        """See `AgentClient.listen`."""
        request = pb.ListenRequest(host=host, addresses=addresses, ports=ports)
        return list(self._call(lambda: self._stub.Listen(request, timeout=_CALL_DEADLINE)).addresses)

    def reach(self, addresses: Sequence[str]) -> dict[str, list[str]]:
        """host -> those of the addresses (host:port) that accept a connection from there."""
        reply = self._call(lambda: self._stub.Reach(pb.ReachRequest(addresses=addresses), timeout=2 * _CALL_DEADLINE))
        return {host.name: list(host.addresses) for host in reply.hosts}

    def reserve(self, requests: Sequence[PortRequest]) -> dict[Task, int]:
        ports = [pb.ReserveRequest.Port(task=_message(entry.task), host=entry.host, wanted=entry.wanted, on=entry.on) for entry in requests]
        reply = self._call(lambda: self._stub.Reserve(pb.ReserveRequest(ports=ports), timeout=_CALL_DEADLINE))
        return {entry.task: port for entry, port in zip(requests, reply.ports, strict=True)}

    def apply(self, plan: Plan) -> RunStatus:
        reply = self._call(lambda: self._stub.Apply(pb.Plan(json=plan.to_json()), timeout=_CALL_DEADLINE))
        return RunStatus.from_json(reply.json)

    def restart(self, task: Task) -> None:
        self._call(lambda: self._stub.Restart(_message(task), timeout=_CALL_DEADLINE))

    def stop(self, reason: str, *, exit_code: int, now: bool = False, timeout: float = _CALL_DEADLINE) -> None:
        request = pb.StopRequest(reason=reason, now=now, exit_code=exit_code)
        self._call(lambda: self._stub.Stop(request, timeout=timeout))

    def wait_until_answering(self, deadline: float, alive: Callable[[], bool]) -> bool:
        """Until the socket answers; False when `alive` says that nobody will, or after `deadline` seconds."""
        end = time.monotonic() + deadline
        # gRPC waits a second after an attempt that came too early.
        while not self._folder.socket.exists() and time.monotonic() < end and alive():
            time.sleep(_POLL)
        ready = grpc.channel_ready_future(self._channel)
        while time.monotonic() < end:
            try:
                ready.result(timeout=0.05)
            except grpc.FutureTimeoutError:
                if not alive():
                    return False
            else:
                return True
        return False

    def _call(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except grpc.RpcError as error:
            if (refused := refusal(error)) is not None:
                raise refused from None
            name, log = self._folder.path.parent.name, self._folder.supervisor_log
            # What gRPC says of a socket that nobody has is a paragraph.
            found = "is gone" if error.code() is grpc.StatusCode.UNAVAILABLE else f"does not answer ({error.details()})"
            raise NoRunError(f"The supervisor of {name} {found}. Its log: {log}") from None


def _message(task: Task) -> pb.TaskRequest:
    return pb.TaskRequest(job=task.job, index=task.index)
