"""The client of a run's supervisor, for `up` and every command about a live run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import Any

import grpc

from psclust.agent.access import AgentAccess
from psclust.agent.refusal import refusal
from psclust.control.json_calls import call, stream
from psclust.control.network_access import channel_from_elsewhere, lives_elsewhere
from psclust.errors import NoRunError
from psclust.plan.port_request import PortRequest
from psclust.plan.task_plan import Plan
from psclust.rundir.folder import ClusterFolder, RunFolder
from psclust.rundir.status import RunStatus
from psclust.spec.cluster import Task
from psclust.spec.typed_json import build
from psclust.supervise.reading import Reading
from psclust.supervise.task_finding import Finding
from psclust.transport.faults import Fault

_CALL_S = 20.0
_POLL_S = 0.005


class SupervisorClient(AbstractContextManager["SupervisorClient"]):
    """Calls have deadlines. They raise the PsclustError that the supervisor raised, or NoRunError
    if it is gone."""

    # A supervisor on this machine is reached by the socket in the run's folder, one on another by
    # the network.

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        # No proxy from the environment.
        options = [
            ("grpc.enable_http_proxy", 0),
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
        ]
        if lives_elsewhere(folder):
            self._channel = channel_from_elsewhere(folder, options)
        else:
            self._channel = grpc.insecure_channel(
                folder.socket_address(), options=[*options, ("grpc.default_authority", "localhost")]
            )

    def __exit__(self, *details: object) -> None:
        self._channel.close()

    def watch(self) -> Iterator[RunStatus]:
        """The run's status, again after every change, until it has `ended` or the supervisor is
        gone."""
        try:
            yield from map(RunStatus.from_json, stream(self._channel, "watch", "null"))
        except grpc.RpcError:
            return

    def detach(self) -> None:
        """Let the run go on when the `psclust up` that started it ends."""
        self._call("detach")

    def add_agents(self, agents: Sequence[AgentAccess]) -> None:
        """Run tasks on the hosts of these agents too."""
        self._call("add_agents", [access.to_json() for access in agents])

    def remove_agents(self, hosts: Sequence[str]) -> None:
        """End the agents on these hosts, where no task is left."""
        self._call("remove_agents", list(hosts), 2 * _CALL_S)

    def entrust(self, authority: str) -> None:
        """Keep the authority of the run's forwarders (`Authority.to_pem`)."""
        self._call("entrust", authority)

    def entrusted(self) -> str | None:
        """None: the run is not encrypted."""
        found: str | None = self._call("entrusted")
        return found

    def listen(self, host: str, addresses: Sequence[str], ports: str) -> list[str]:
        """See `AgentClient.listen`."""
        return list(self._call("listen", [host, list(addresses), ports]))

    def probe(self, addresses: Sequence[str]) -> dict[str, list[str]]:
        """Host -> the addresses (host:port) that accept a connection from there."""
        return dict(self._call("probe", list(addresses), 2 * _CALL_S))

    def reserve(self, requests: Sequence[PortRequest]) -> dict[Task, int]:
        """Reserve ports for tasks, on the hosts that will run them."""
        wanted = [
            ((entry.task.job, entry.task.index), entry.host, entry.wanted, entry.on, entry.reached)
            for entry in requests
        ]
        ports = self._call("reserve", wanted)
        return {entry.task: port for entry, port in zip(requests, ports, strict=True)}

    def apply(self, plan: Plan, *, save: bool = False) -> RunStatus:
        """Replace the plan: tasks that do not differ keep running. save: see `events.Apply`."""
        name = "save_and_apply" if save else "apply"
        return RunStatus.from_json(self._text(name, plan.to_json(), _CALL_S))

    def explain(self) -> list[Finding]:
        """What every task does, in the order of the plan."""
        return [build(Finding, each) for each in self._call("explain", None, 2 * _CALL_S)]

    def readings(self) -> list[Reading]:
        """How far every task is and what it uses, in the order of the plan."""
        return [Reading.from_json(text) for text in self._call("readings")]

    def leave(self, host: str, reason: str) -> None:
        """Have the tasks that can leave a host, which stays for as long as it is needed."""
        self._call("leave", [host, reason])

    def restart(self, task: Task) -> None:
        self._call("restart", (task.job, task.index))

    def inject(self, host: str, fault: Fault, what: str) -> None:
        """Make a fault on a host of the run, or on that of its supervisor. what: the sentence that
        the run records and `up` shows."""
        self._call("inject", [host, asdict(fault), what])

    def stop(
        self,
        reason: str,
        *,
        exit_code: int,
        now: bool = False,
        save: bool = False,
        timeout_s: float = _CALL_S,
    ) -> None:
        """See `events.Stop`; `now`: `events.Kill`."""
        request = {"reason": reason, "exit_code": exit_code, "now": now, "save": save}
        self._call("stop", request, timeout_s)

    def wait_until_answering(self, timeout_s: float, alive: Callable[[], bool]) -> bool:
        """Wait until the socket accepts connections; False after `timeout_s`, or when the
        supervisor is not `alive`."""
        end = time.monotonic() + timeout_s
        # If gRPC connects too early, it waits a second before it tries again.
        while not self._folder.socket.exists() and time.monotonic() < end and alive():
            time.sleep(_POLL_S)
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

    def _call(self, name: str, request: object = None, timeout_s: float = _CALL_S) -> Any:
        return json.loads(self._text(name, json.dumps(request), timeout_s))

    def _text(self, name: str, request: str, timeout_s: float) -> str:
        try:
            return call(self._channel, name, request, timeout_s)
        except grpc.RpcError as error:
            if (refused := refusal(error)) is not None:
                raise refused from None
            name, log = self._folder.path.parent.name, self._folder.supervisor_log
            # gRPC describes a socket without a server in a paragraph.
            gone = (
                error.code() is grpc.StatusCode.UNAVAILABLE
                and not ClusterFolder(self._folder.path.parent).is_locked()
            )
            found = "is gone" if gone else f"does not answer ({error.details()})"
            raise NoRunError(f"The supervisor of {name} {found}. Its log: {log}") from None
