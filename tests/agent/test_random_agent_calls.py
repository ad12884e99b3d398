"""Calls of an agent with random messages and random bytes, over real gRPC: each is answered, or
refused in a sentence, and the agent goes on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import given, settings
from hypothesis import strategies as st

from beds.calls import answer
from beds.plans import program_plan
from psclust.agent import agent_pb2 as pb
from psclust.agent.agent import Agent
from psclust.agent.agent_calls import agent_stub, serve_agent
from psclust.agent.agent_service import AgentService
from psclust.agent.records import plan_message, plan_of
from psclust.agent.update_stream import stream_updates
from psclust.plan.task_plan import TaskPlan
from psclust.rundir.folder import ClusterFolder
from psclust.spec.cluster import Task
from psclust.testing.wait import PATIENCE_S
from psclust.transport.local_transport import LocalTransport

NO_PID = 1 << 23  # from here on no process has an id
# No text that a name server is asked about, and none that reaches another machine.
WORDS = (
    "worker ps worker:0 worker.free_port ../../x auto 2300-2310 1-0 99999 -5 127.0.0.1 127.0.0.1:1 "
    "127.0.0.1:99999 localhost kill freeze program server never / tensorflow x=y"
)
TEXTS = st.sampled_from(["", "a\0b", "a" * 300, "9" * 5000, *WORDS.split()]) | st.text(
    " \0/\n:", min_size=1, max_size=8
)
INTEGERS = st.sampled_from([0, 1, 2, 2300, 65535, 65536, (1 << 31) - 1, (1 << 32) - 1])
NUMBERS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_STRING: TEXTS,
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=8),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_UINT32: INTEGERS,
    FieldDescriptor.TYPE_UINT64: INTEGERS.map(lambda number: NO_PID + (number << 30)),
    FieldDescriptor.TYPE_DOUBLE: st.floats() | st.sampled_from([0.0, 1.0, -1.0, 1e300]),
}
METHODS = {method.name: method for method in pb.DESCRIPTOR.services_by_name["Agent"].methods}
# Stop is a right request, whatever its bytes are.
CALLED = sorted(METHODS.keys() - {"Stop", "Watch"})


def messages(kind: Descriptor) -> st.SearchStrategy[Any]:
    values = {each.name: _values(each) for each in kind.fields}
    made: st.SearchStrategy[Any] = st.fixed_dictionaries({}, optional=values).map(
        lambda fields: kind._concrete_class(**fields)
    )
    # What has no pid is a fault of links, and this machine's are not to be cut.
    return made.filter(lambda it: it.HasField("pid")) if kind.name == "Fault" else made


def _values(each: FieldDescriptor) -> st.SearchStrategy[Any]:
    inner = each.message_type
    if inner is not None and inner.GetOptions().map_entry:
        key, value = (_values(inner.fields_by_name[name]) for name in ("key", "value"))
        return st.dictionaries(key, value, max_size=2)
    one = messages(inner) if inner is not None else NUMBERS[each.type]
    unset = getattr(each.containing_type._concrete_class(), each.name)
    return st.lists(one, max_size=3) if hasattr(unset, "extend") else one


@dataclass
class Started:
    plans: list[TaskPlan] = field(default_factory=list)


class IdleTransport(LocalTransport):
    """Starts nothing."""

    started: Started

    def start(self, plan: TaskPlan, attempt: int, log: Path) -> None:
        assert log.parent.name == "logs"
        assert log.parent.is_dir()
        self.started.plans.append(plan)


@dataclass
class Bench:
    agent: Agent
    channel: grpc.Channel
    started: Started

    def call(self, name: str, data: bytes) -> bytes | None:
        """None: refused, in a sentence."""
        return answer(self.channel, f"/psclust.agent.v1.Agent/{name}", data)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = ClusterFolder(tmp_path_factory.mktemp("agent") / "run").new_run()
    agent = Agent(folder, lease_s=3600.0, grace_s=0.1)
    transport = IdleTransport(agent, {}, {}, log=2)
    transport.started = Started()
    server = grpc.server(ThreadPoolExecutor(max_workers=8))
    serve_agent(AgentService(agent), server)
    server.add_insecure_port(folder.socket_address())
    server.start()
    thread = threading.Thread(target=agent.run, args=(transport,))
    thread.start()
    options = [("grpc.default_authority", "localhost")]
    with grpc.insecure_channel(folder.socket_address(), options=options) as channel:
        yield Bench(agent, channel, transport.started)
    agent.stop("the test is over")
    thread.join(PATIENCE_S)
    server.stop(None).wait()
    transport.close()
    assert {path.name for path in folder.path.parent.parent.iterdir()} == {"run"}


def _goes_on(bench: Bench) -> None:
    reply = bench.call("RenewLease", pb.RenewLeaseRequest().SerializeToString())
    assert reply is not None
    assert pb.RenewLeaseReply.FromString(reply).clock > 0


@given(
    st.sampled_from(CALLED).flatmap(
        lambda name: st.tuples(st.just(name), messages(METHODS[name].input_type))
    )
)
def test_a_message_is_answered_or_refused(bench: Bench, call: tuple[str, Any]) -> None:
    name, message = call
    before = len(bench.started.plans)
    reply = bench.call(name, message.SerializeToString())
    if reply is not None:
        METHODS[name].output_type._concrete_class.FromString(reply)
    if name == "Start" and len(bench.started.plans) > before:
        assert bench.started.plans[-1] == plan_of(message.plan)
    _goes_on(bench)


@given(st.sampled_from(sorted({*CALLED} - {"Inject"})), st.binary(max_size=40))
def test_bytes_are_answered_or_refused(bench: Bench, name: str, data: bytes) -> None:
    bench.call(name, data)
    _goes_on(bench)


@given(st.integers(0, 200), st.integers(0, 255))
def test_a_plan_with_another_byte_is_started_as_it_is_or_refused(
    bench: Bench, place: int, byte: int
) -> None:
    number = len(bench.started.plans) + 1
    plan = program_plan(Task("worker", 0), "h1", ("train", "--x=1"))
    request = pb.StartRequest(plan=plan_message(plan), attempt=number)
    data = bytearray(request.SerializeToString(deterministic=True))
    data[place % len(data)] = byte
    if bench.call("Start", bytes(data)) is not None and len(bench.started.plans) == number:
        assert bench.started.plans[-1] == plan_of(pb.StartRequest.FromString(bytes(data)).plan)
    fresh = replace(plan, task=Task("fresh", 0))
    request = pb.StartRequest(plan=plan_message(fresh), attempt=number)
    agent_stub(bench.channel).Start(request, timeout=PATIENCE_S)
    assert bench.started.plans[-1] == fresh


# Each waits for news.
@settings(max_examples=20)
@given(messages(METHODS["Watch"].input_type))
def test_who_watches_gets_what_he_asked_for(bench: Bench, request: Any) -> None:
    if request.after < NO_PID:
        bench.agent.event_log.add(pb.Event(not_started="a test"))
    active = iter([True])
    found = list(stream_updates(bench.agent, request, lambda: next(active, False)))
    numbers = [each.event.number for each in found if each.HasField("event")]
    assert numbers == sorted(numbers)
    assert all(number > request.after for number in numbers)
