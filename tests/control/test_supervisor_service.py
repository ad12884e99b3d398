"""A run on another host, from `up`'s calls to its end, over real gRPC; the agent is a double that
runs nothing."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from beds.plans import program_plan
from psclust.agent import agent_pb2 as pb
from psclust.agent.access import AgentAccess, server_credentials
from psclust.agent.agent_calls import serve_agent
from psclust.agent.lease import clock
from psclust.control.certificates import Authority
from psclust.control.remote_transport import RemoteTransport
from psclust.control.supervisor_client import SupervisorClient
from psclust.control.supervisor_process import serve
from psclust.errors import NoRunError
from psclust.plan.port_request import PortRequest
from psclust.plan.task_plan import Deadlines, Plan
from psclust.rundir.folder import ClusterFolder, RunFolder
from psclust.spec.cluster import ClusterSpec, Task
from psclust.supervise import events
from psclust.supervise.supervisor import Supervisor
from psclust.transport.local_transport import LocalTransport

WORKER = Task("worker", 0)
WORKER_ID = pb.TaskId(job="worker", index=0)
PLAN = program_plan(WORKER, "h1", ("train",))


class AgentDouble:
    def __init__(self) -> None:
        self.updates: queue.SimpleQueue[pb.Update | None] = queue.SimpleQueue()

    def Reserve(self, request: pb.ReserveRequest, context: Any) -> pb.ReserveReply:
        return pb.ReserveReply(ports=[2300] * len(request.ports))

    def Listen(self, request: pb.ListenRequest, context: Any) -> pb.Addresses:
        return pb.Addresses(addresses=[f"{address}:2300" for address in request.addresses])

    def Probe(self, request: pb.Addresses, context: Any) -> pb.Addresses:
        return request

    def RenewLease(self, request: pb.RenewLeaseRequest, context: Any) -> pb.RenewLeaseReply:
        return pb.RenewLeaseReply(clock=clock())

    def Start(self, request: pb.StartRequest, context: Any) -> pb.Empty:
        self.updates.put(pb.Update(event=pb.Event(number=1, task=WORKER_ID, started=4711)))
        return pb.Empty()

    def end_task(self) -> None:
        self.updates.put(pb.Update(output=pb.Output(task=WORKER_ID, attempt=1, data=b"trained\n")))
        self.updates.put(pb.Update(event=pb.Event(number=2, task=WORKER_ID, exited=0)))

    def Watch(self, request: pb.WatchRequest, context: Any) -> Iterator[pb.Update]:
        return iter(self.updates.get, None)

    def Stop(self, request: pb.Empty, context: Any) -> pb.Empty:
        self.updates.put(None)
        return pb.Empty()


class RecordedTransport(RemoteTransport):
    """Records the thread of every call from outside."""

    def __init__(self, *arguments: Any) -> None:
        self._calls: list[tuple[str, int]] = []
        super().__init__(*arguments)

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        return (
            found
            if name.startswith("_")
            else lambda *arguments: self._record(name, found, *arguments)
        )

    def _record(self, name: str, method: Callable[..., object], *arguments: object) -> object:
        self._calls.append((name, threading.get_ident()))
        return method(*arguments)


@pytest.fixture
def agent() -> Iterator[tuple[AgentDouble, AgentAccess]]:
    authority = Authority("test")
    double, server = AgentDouble(), grpc.server(ThreadPoolExecutor(max_workers=8))
    serve_agent(double, server)
    port = server.add_secure_port("127.0.0.1:0", server_credentials(authority.agent("h1")))
    server.start()
    yield double, AgentAccess("h1", f"127.0.0.1:{port}", authority.launcher(), 30.0)
    server.stop(None).wait()


def test_every_call_of_the_transport_is_made_on_the_supervisors_thread(
    agent: tuple[AgentDouble, AgentAccess], tmp_path: Path
) -> None:
    double, access = agent
    folder: RunFolder = ClusterFolder(tmp_path / "run").new_run()
    supervisor = Supervisor(folder, "run")
    local = LocalTransport(supervisor, {}, {}, log=2)
    transport = RecordedTransport(local, folder, supervisor.post)
    owner: list[int] = []

    def supervise() -> None:
        owner.append(threading.get_ident())
        supervisor.run(transport)
        transport.close()

    server = serve(supervisor, transport, folder, threading.Event())
    thread = threading.Thread(target=supervise)
    thread.start()
    with SupervisorClient(folder) as client:
        client.add_agents([access])
        assert client.listen("h1", ["10.0.0.1"], "auto") == ["10.0.0.1:2300"]
        assert client.probe(["10.0.0.1:2300"]) == {"h1": ["10.0.0.1:2300"]}
        assert client.reserve([PortRequest(WORKER, "10.0.0.1", "auto", "h1")]) == {WORKER: 2300}
        client.apply(
            Plan(
                "run",
                ClusterSpec({}),
                (PLAN,),
                Deadlines(start_s=60, stop_s=10, finish_s=30, run_s=None),
            )
        )
        client.detach()
        double.end_task()
        *_, last = client.watch()
    thread.join(60)
    server.stop(None).wait()
    assert last.ended
    assert folder.log(WORKER, 1).read_text() == "trained\n"
    assert {name for name, _ in transport._calls} >= {
        "add_agents",
        "agents",
        "reserve",
        "start",
        "output",
        "extend_leases",
        "close",
    }
    assert {thread for _, thread in transport._calls} == set(owner)


def test_a_request_after_the_end_of_the_run_is_refused(tmp_path: Path) -> None:
    folder: RunFolder = ClusterFolder(tmp_path / "run").new_run()
    supervisor = Supervisor(folder, "run")
    transport = RemoteTransport(LocalTransport(supervisor, {}, {}, log=2), folder, supervisor.post)
    supervisor.post(events.Stop("the test", ok=True, exit_code=0))
    assert supervisor.run(transport).ended
    server = serve(supervisor, transport, folder, threading.Event())
    request = PortRequest(WORKER, "127.0.0.1", "auto", "h1")
    lock = ClusterFolder(tmp_path / "run").lock()
    assert lock is not None
    with (
        SupervisorClient(folder) as client,
        pytest.raises(NoRunError, match=r"does not answer \(run: the run has ended\.\)"),
    ):
        client.reserve([request])
    os.close(lock)
    with SupervisorClient(folder) as client, pytest.raises(NoRunError, match="is gone"):
        client.reserve([request])
    server.stop(None).wait()
    transport.close()
