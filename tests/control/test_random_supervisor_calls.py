"""Calls of a supervisor with random JSON and random bytes, over its real socket: each is answered,
or refused in a sentence, and the run goes on."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beds.calls import answer
from beds.damage import DATA, damaged, likely
from beds.plans import program_plan
from psclust.control.remote_transport import RemoteTransport
from psclust.control.supervisor_process import serve
from psclust.control.supervisor_service import StopRequest
from psclust.plan.task_plan import Deadlines, Plan, TaskPlan
from psclust.rundir.folder import ClusterFolder, RunFolder
from psclust.rundir.status import RunStatus
from psclust.spec.cluster import ClusterSpec, Task
from psclust.spec.typed_json import build
from psclust.supervise import events
from psclust.supervise.replan import read_plan
from psclust.supervise.supervisor import Supervisor
from psclust.testing.wait import PATIENCE_S
from psclust.transport.faults import Fault
from psclust.transport.local_transport import LocalTransport

WORKER = Task("worker", 0)
PLAN = Plan(
    "run",
    ClusterSpec({"ps": ("127.0.0.1:1",)}),
    (
        program_plan(Task("ps", 0), "host-1", ("serve",), address="127.0.0.1:1"),
        program_plan(WORKER, "host-1", ("train",), needs=(Task("ps", 0),)),
    ),
    Deadlines(start_s=3600.0, stop_s=10.0, finish_s=30.0, run_s=None),
)
# Without a lease, so that no agent is dialled.
ACCESS = {
    "host": "host-1",
    "target": "127.0.0.1:1",
    "identity": dict.fromkeys(("key", "certificate", "authority"), "PEM"),
    "via": None,
}
NOBODY = 1 << 23  # no process has this id
RIGHT: dict[str, Any] = {
    "add_agents": [json.dumps(ACCESS)],
    "remove_agents": ["host-1"],
    "entrust": "PEM",
    "entrusted": None,
    "listen": ["host-1", ["127.0.0.1"], "auto"],
    "probe": ["127.0.0.1:1"],
    "reserve": [[["worker", 0], "127.0.0.1", "auto", "host-1", None]],
    "apply": json.loads(PLAN.to_json()),
    "save_and_apply": json.loads(PLAN.to_json()),
    "explain": None,
    "readings": None,
    "restart": ["worker", 0],
    "leave": ["host-1", "it goes"],
    "inject": ["host-1", asdict(Fault("kill", NOBODY)), "a sentence"],
    "stop": {"reason": "a test", "exit_code": 1, "now": True, "save": False},
}
_ENDING = ("run_s", "start_s", "progress_s")


def _spares_the_run(name: str, data: bytes) -> bool:
    """Whether the request, if it is right, is one that the run outlives."""
    with suppress(ValueError, RecursionError):
        request = json.loads(data)
        if name == "stop":
            build(StopRequest, request)
            return False
        if name in ("apply", "save_and_apply") and isinstance(request, dict):
            limits = request.get("deadlines")
            return not isinstance(limits, dict) or all(
                limits.get(each) == asdict(PLAN.deadlines)[each] for each in _ENDING
            )
    return True


CALLS = st.sampled_from(sorted(RIGHT)).flatmap(
    lambda name: st.tuples(
        st.just(name),
        likely(RIGHT[name])
        | damaged(json.dumps(RIGHT[name]))
        | DATA.map(lambda data: json.dumps(data).encode())
        | st.binary(max_size=20),
    )
)


class IdleTransport(LocalTransport):
    """Starts nothing, and is never asked to write outside the run's folder."""

    def start(self, plan: TaskPlan, attempt: int, log: Path) -> None:
        assert log.parent.name == "logs"
        assert log.parent.is_dir()


@dataclass
class Bench:
    folder: RunFolder
    channel: grpc.Channel

    def call(self, name: str, data: bytes) -> str | None:
        """None: refused, in a sentence."""
        found = answer(self.channel, f"/psclust.Supervisor/{name}", data)
        return None if found is None else found.decode()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = ClusterFolder(tmp_path_factory.mktemp("runs") / "run").new_run()
    supervisor = Supervisor(folder, "run")
    transport = RemoteTransport(IdleTransport(supervisor, {}, {}, log=2), folder, supervisor.post)
    server = serve(supervisor, transport, folder, threading.Event())
    thread = threading.Thread(target=supervisor.run, args=(transport,))
    thread.start()
    options = [("grpc.default_authority", "localhost")]
    with grpc.insecure_channel(folder.socket_address(), options=options) as channel:
        yield Bench(folder, channel)
    supervisor.post(events.Kill("the test is over"))
    for task in supervisor.status().tasks:
        supervisor.post(events.NotStarted(Task.parse(task.task), "the test is over"))
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    server.stop(None).wait()
    transport.close()


@given(CALLS.filter(lambda call: _spares_the_run(*call)))
def test_a_request_is_answered_or_refused(bench: Bench, call: tuple[str, bytes]) -> None:
    name, data = call
    reply = bench.call(name, data)
    if reply is not None:
        found = json.loads(reply)
        if name == "apply":
            assert read_plan(bench.folder) == Plan.from_json(data.decode())
        elif name == "reserve":
            assert len(found) == len(json.loads(data))
    assert bench.call("apply", PLAN.to_json().encode()) is not None
    assert read_plan(bench.folder) == PLAN


# A stream holds a thread for as much as a second after its client has left.
@settings(max_examples=20)
@given(st.binary(max_size=20))
def test_who_watches_gets_the_status_whatever_he_sends(bench: Bench, data: bytes) -> None:
    watch = bench.channel.unary_stream("/psclust.Supervisor/watch")(data, timeout=PATIENCE_S)
    (status,) = (RunStatus.from_json(text.decode()) for text in islice(watch, 1))
    watch.cancel()
    assert status.name == "run"
