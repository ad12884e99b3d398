"""A real agent on a test host and its client: tasks, updates, refusals, cuts and the end."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from plans import program_plan

import psclust
from psclust.agent import agent_pb2 as pb
from psclust.agent import agent_pb2_grpc
from psclust.agent.access import AgentAccess, Identity, server_name
from psclust.agent.process import AgentReply, AgentRequest
from psclust.control.agent_client import AgentClient
from psclust.control.certificates import Authority
from psclust.errors import StartError
from psclust.rundir.folder import RunFolder
from psclust.spec.cluster import Host, Task
from psclust.testing.hosts import BedHost, HostBed, host_bed
from psclust.testing.wait import wait_until
from psclust.transport.api import Output

pytestmark = pytest.mark.process
isolated = pytest.mark.skipif(
    os.geteuid() != 0, reason="hosts that can be cut off are namespaces, which need root"
)

WORKER = Task("worker", 0)


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostBed]:
    with host_bed(tmp_path_factory.mktemp("bed") / "hosts", 2) as bed:
        yield bed


@dataclass
class Recorder:
    """A listener that records its calls."""

    events: list[Any] = field(default_factory=list)
    silences: list[bool] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def started(self, task: Task, pid: int) -> None:
        self.events.append(("started", task))

    def not_started(self, task: Task, reason: str) -> None:
        self.events.append(("not started", task, reason))

    def exited(self, task: Task, code: int) -> None:
        self.events.append(("exited", task, code))

    def soon(self, work: Callable[[], None]) -> None:
        work()

    def host_lost(self, host: str, reason: str, *, all_hosts: bool = False) -> None:
        self.events.append(("lost", host))

    def note(self, text: str) -> None:
        self.notes.append(text)

    def host_silent(self, host: str, silent: bool) -> None:
        self.silences.append(silent)


@dataclass
class Started:
    host: BedHost
    authority: Authority
    identity: Identity
    reply: AgentReply
    client: AgentClient
    recorder: Recorder
    folder: RunFolder

    @property
    def target(self) -> str:
        return f"{self.host.address}:{self.reply.port}"

    def run(self, script: str, attempt: int = 1, task: Task = WORKER) -> None:
        self.client.start(
            program_plan(task, self.host.name, (sys.executable, "-c", script)), attempt
        )

    def log(self, attempt: int = 1) -> str:
        path = self.folder.log(WORKER, attempt)
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def wait_for(self, *event: Any) -> None:
        wait_until(lambda: event in self.recorder.events, what=str(event))


@pytest.fixture
def start(bed: HostBed, tmp_path: Path) -> Iterator[Callable[..., Started]]:
    clients: list[AgentClient] = []

    def start(
        lease_s: float = 20.0,
        environ: dict[str, str] | None = None,
        via: Host | None = None,
        before_connecting: Callable[[BedHost, AgentReply], None] = lambda host, reply: None,
    ) -> Started:
        host, authority = bed[0], Authority("test")
        run = f"run-{len(clients)}-{os.urandom(3).hex()}"
        identity = authority.agent(host.name)
        own = str(host.home / ".local" / "state" / run)
        request = AgentRequest(host.name, own, host.address, lease_s, 2.0, identity, environ or {})
        where = f"PYTHONPATH={Path(psclust.__file__).parents[1]}"
        command = host.command(
            "env", f"HOME={host.home}", where, sys.executable, "-m", "psclust.agent"
        )
        done = subprocess.run(
            command, input=request.to_json(), capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        reply, folder, recorder = (
            AgentReply.from_json(done.stdout),
            RunFolder(tmp_path / run),
            Recorder(),
        )
        folder.create()
        before_connecting(host, reply)
        access = AgentAccess(
            host.name,
            f"{host.address}:{reply.port}",
            authority.launcher(),
            lease_s,
            {"reach_by": "ssh", "host": asdict(via), "place": {}} if via else None,
        )
        clients.append(AgentClient(access, folder, recorder))
        return Started(host, authority, identity, reply, clients[-1], recorder, folder)

    yield start
    for client in clients:
        client.stop()


def test_another_version_than_the_launchers_is_not_started(tmp_path: Path) -> None:
    request = AgentRequest(
        "h1",
        str(tmp_path / "run"),
        "127.0.0.1",
        5.0,
        2.0,
        Authority("test").agent("h1"),
        {},
        version="0.0.9",
    )
    done = subprocess.run(
        [sys.executable, "-m", "psclust.agent"],
        input=request.to_json(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    where = Path(psclust.__file__).parent
    assert done.returncode == 3
    assert done.stderr.startswith(
        f"psclust is {psclust.__version__} there, in {where}, and 0.0.9 here. "
        "Install the same version, or uninstall that one"
    )
    assert not (tmp_path / "run").exists()


def test_a_task_runs_there_and_all_its_output_arrives_before_the_event_of_its_end(
    start: Callable[..., Started],
) -> None:
    agent = start(environ={"TOKEN": "from the launcher"})
    agent.run(
        "import os; print(os.environ['HOME'], os.environ['TOKEN']); [print(i) "
        "for i in range(50000)]; exit(3)"
    )
    agent.wait_for("exited", WORKER, 3)
    assert agent.recorder.events == [("started", WORKER), ("exited", WORKER, 3)]
    lines = agent.log().splitlines()
    assert lines[0] == f"{agent.host.home} from the launcher"
    assert lines[1:] == [str(number) for number in range(50000)]


def test_output_that_does_not_fit_on_a_host_is_kept_by_the_launcher(
    start: Callable[..., Started],
) -> None:
    started = start()
    RunFolder(Path(started.reply.folder)).log(WORKER, 1).symlink_to("/dev/full")
    go = Path(started.reply.folder) / "go"
    wait = f"while not os.path.exists({str(go)!r}): time.sleep(0.02)"
    started.run(
        f"import os, time\nprint('the reason', flush=True)\n{wait}\n"
        "print('x' * 100_000)\nraise SystemExit(7)"
    )
    wait_until(lambda: "the reason" in started.log(), what="the first line")
    go.touch()
    started.wait_for("exited", WORKER, 7)
    first, marked, rest = (
        started.log().splitlines()[0],
        started.log().splitlines()[-2],
        started.log().splitlines()[-1],
    )
    assert first == "the reason"
    assert (
        marked == f"[psclust: {100_001 - len(rest) - 1} bytes found no room on {started.host.name}]"
    )
    assert set(rest) == {"x"}
    assert len(rest) > 10_000
    assert any(started.host.name in note and "no space" in note for note in started.recorder.notes)
    assert started.client.tasks.output(WORKER).lost == 0


def test_output_that_does_not_fit_on_the_launcher_is_kept_in_memory(
    start: Callable[..., Started],
) -> None:
    started = start()
    started.folder.log(WORKER, 1).symlink_to("/dev/full")
    started.run("print('the reason')\nraise SystemExit(7)")
    started.wait_for("exited", WORKER, 7)
    assert started.client.tasks.output(WORKER) == Output(b"the reason\n", 11, b"the reason\n")
    started.run("print('second')", attempt=2)
    started.wait_for("exited", WORKER, 0)
    assert started.client.tasks.output(WORKER) == Output(b"second\n")


def test_a_missing_program_is_reported(start: Callable[..., Started]) -> None:
    agent = start()
    agent.client.start(
        replace(
            program_plan(WORKER, agent.host.name, ("/no/such/python", "x.py")), preload="tensorflow"
        ),
        1,
    )
    wait_until(lambda: agent.recorder.events, what="an event")
    assert agent.recorder.events[0][0] == "not started"


def test_a_start_request_that_an_agent_refuses_is_reported(start: Callable[..., Started]) -> None:
    agent = start()
    agent.client.start(program_plan(WORKER, agent.host.name, ()), 1)
    wait_until(lambda: agent.recorder.events, what="an event")
    kind, task, reason = agent.recorder.events[0]
    assert (kind, task) == ("not started", WORKER)
    assert reason.startswith("h1: ")


def test_tasks_and_agent_end_after_the_lease_without_a_launcher(
    start: Callable[..., Started],
) -> None:
    agent = start(lease_s=3.0)
    agent.run("import time; print('up', flush=True); time.sleep(1000)")
    wait_until(lambda: "up" in agent.log(), what="the task")
    agent.host.cut()
    try:
        if agent.host.isolated:
            wait_until(lambda: not agent.host.programs(), what="the end of all processes")
        agent.wait_for("lost", "h1")
    finally:
        agent.host.heal()
    wait_until(lambda: not agent.host.programs(), what="the end of all processes")


@isolated
def test_a_cut_shorter_than_the_lease_loses_nothing(start: Callable[..., Started]) -> None:
    agent = start(lease_s=30.0)
    agent.run("import time\nfor i in range(60): print(i, flush=True); time.sleep(0.1)")
    wait_until(lambda: "3\n" in agent.log(), what="the first lines")
    agent.host.cut()
    try:
        # Until lines are printed that nobody receives.
        own = Path(agent.reply.folder) / "logs" / "worker-0.1.log"
        far = agent.log().count("\n") + 15
        wait_until(
            lambda: int(agent.host.run("sh", "-c", f"wc -l < {own}")) > far,
            what="lines in the meantime",
        )
        assert agent.log().count("\n") < far
    finally:
        agent.host.heal()
    wait_until(lambda: ("exited", WORKER, 0) in agent.recorder.events, what="the end")
    assert agent.log().splitlines() == [str(number) for number in range(60)]
    assert agent.recorder.events == [("started", WORKER), ("exited", WORKER, 0)]


@isolated
@pytest.mark.parametrize(("after", "via"), [(0.1, None), (0.4, None), (0.3, Host("h1"))])
def test_a_cut_of_nine_tenths_of_the_lease_loses_nothing(
    start: Callable[..., Started],
    bed: HostBed,
    monkeypatch: pytest.MonkeyPatch,
    after: float,
    via: Host | None,
) -> None:
    monkeypatch.setenv("HOME", str(bed.home))
    agent = start(lease_s=10.0, via=via)
    agent.run("import time\nfor i in range(150): print(i, flush=True); time.sleep(0.1)")
    wait_until(lambda: "3\n" in agent.log(), what="the first lines")
    began = time.monotonic() + after
    wait_until(lambda: time.monotonic() >= began, what="another moment between two renewals")
    agent.host.cut()
    try:
        wait_until(lambda: time.monotonic() >= began + 0.9 * 10.0, what="the end of the cut")
    finally:
        agent.host.heal()
    agent.wait_for("exited", WORKER, 0)
    assert agent.log().splitlines() == [str(number) for number in range(150)]
    assert agent.recorder.events == [("started", WORKER), ("exited", WORKER, 0)]


def test_an_agent_that_was_suspended_ends_its_tasks_before_it_accepts_requests(
    start: Callable[..., Started],
) -> None:
    agent = start(lease_s=3.0)
    # Ignores TERM: its grace is over.
    agent.run(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print('up', flush=True); time.sleep(1000)"
    )
    wait_until(lambda: "up" in agent.log(), what="the task")
    agent.host.run("kill", "-STOP", str(agent.reply.pid))
    try:
        agent.run("print('again')", attempt=2)
        agent.wait_for("lost", "h1")
    finally:
        agent.host.run("kill", "-CONT", str(agent.reply.pid))
    wait_until(
        lambda: not any("signal.SIG_IGN" in program for program in agent.host.programs()),
        what="the end of the task",
    )
    wait_until(lambda: not agent.host.programs(), what="the end of all processes")
    assert not (Path(agent.reply.folder) / "logs" / "worker-0.2.log").exists()
    assert (
        "stopping: the supervisor has not renewed its lease"
        in (Path(agent.reply.folder) / "supervisor.log").read_text()
    )


def test_an_agent_that_was_suspended_for_less_than_its_lease_goes_on(
    start: Callable[..., Started],
) -> None:
    agent = start(lease_s=10.0)
    agent.run("import time; print('up', flush=True); time.sleep(15); print('through')")
    wait_until(lambda: "up" in agent.log(), what="the task")
    agent.host.run("kill", "-STOP", str(agent.reply.pid))
    stopped = time.monotonic()
    try:
        wait_until(
            lambda: time.monotonic() > stopped + 0.9 * 10.0, what="the end of the standstill"
        )
    finally:
        agent.host.run("kill", "-CONT", str(agent.reply.pid))
    agent.wait_for("exited", WORKER, 0)
    assert agent.log().split() == ["up", "through"]
    assert agent.recorder.events == [("started", WORKER), ("exited", WORKER, 0)]


def test_an_agent_that_is_killed_takes_its_tasks_with_it_and_its_silence_is_noticed(
    start: Callable[..., Started],
) -> None:
    agent = start()
    agent.run(
        "import os, time; os.fork() or os.setsid(); print('up', flush=True); time.sleep(1000)"
    )
    wait_until(lambda: "up" in agent.log(), what="the task")
    agent.host.run("kill", "-9", str(agent.reply.pid))
    wait_until(lambda: not agent.host.programs(), what="the end of all processes")
    wait_until(lambda: agent.recorder.silences == [True], what="the silence")


def test_calls_to_an_agent_that_has_stopped_fail_at_once(start: Callable[..., Started]) -> None:
    agent = start()
    agent.host.run("kill", "-TERM", str(agent.reply.pid))
    agent.wait_for("lost", "h1")
    with pytest.raises(StartError, match=r"^h1: its agent has stopped: it got SIGTERM\.$"):
        agent.client.probe([])


def test_an_agent_that_stops_before_the_supervisor_has_connected_still_says_why(
    start: Callable[..., Started],
) -> None:
    def stop(host: BedHost, reply: AgentReply) -> None:
        host.run("kill", "-TERM", str(reply.pid))
        log = RunFolder(Path(reply.folder)).supervisor_log
        wait_until(lambda: "stopping: it got SIGTERM" in log.read_text(), what="the agent to stop")

    agent = start(before_connecting=stop)
    agent.wait_for("lost", "h1")
    with pytest.raises(StartError, match=r"^h1: its agent has stopped: it got SIGTERM\.$"):
        agent.client.probe([])


def test_a_stopped_agent_leaves_nothing_but_its_folder(start: Callable[..., Started]) -> None:
    agent = start()
    agent.run("import time; print('up', flush=True); time.sleep(1000)")
    wait_until(lambda: "up" in agent.log(), what="the task")
    agent.client.stop()
    wait_until(lambda: not agent.host.programs(), what="the end of all processes")
    assert (
        agent.host.run("sh", "-c", f"ls -d {agent.reply.folder} || true").strip()
        == agent.reply.folder
    )


def _channel(agent: Started, identity: Identity | None) -> grpc.Channel:
    """To the agent, with this identity."""
    authority = agent.authority.certificate
    credentials = (
        grpc.ssl_channel_credentials(authority)
        if identity is None
        else grpc.ssl_channel_credentials(authority, identity.key, identity.certificate)
    )
    options = [("grpc.ssl_target_name_override", server_name("h1")), ("grpc.enable_http_proxy", 0)]
    return grpc.secure_channel(agent.target, credentials, options=options)


def _renew(agent: Started, identity: Identity | None) -> str:
    """OK, or the name of gRPC's status for a call with this identity."""
    with _channel(agent, identity) as channel:
        try:
            agent_pb2_grpc.AgentStub(channel).RenewLease(pb.RenewLeaseRequest(), timeout=5)
        except grpc.RpcError as error:
            return str(error.code().name)
    return "OK"


def test_who_has_no_certificate_of_this_cluster_is_refused_and_the_log_says_so(
    start: Callable[..., Started],
) -> None:
    agent = start()
    assert _renew(agent, agent.authority.launcher()) == "OK"
    strangers = {
        "without": None,
        "of another cluster": Authority("test").launcher(),
        "expired": agent.authority.launcher(datetime.timedelta(hours=-1)),
        "of an agent, not of a launcher": agent.authority.agent("h1"),
    }
    log = Path(agent.reply.folder) / "supervisor.log"
    for name, identity in strangers.items():
        before = len(agent.host.run("cat", str(log)))
        assert _renew(agent, identity) == "UNAVAILABLE", name
        said = wait_until(
            lambda before=before: agent.host.run("cat", str(log))[before:], what="the agent's log"
        )
        assert "andshake" in said, name
    with grpc.insecure_channel(agent.target) as channel, pytest.raises(grpc.RpcError):
        agent_pb2_grpc.AgentStub(channel).RenewLease(pb.RenewLeaseRequest(), timeout=5)


def test_it_listens_on_its_own_address_only_and_keeps_no_key_on_disk(
    start: Callable[..., Started],
) -> None:
    agent = start()
    listening = [
        entry.replace("[::ffff:", "").replace("]", "")
        for entry in agent.host.run("ss", "-ltnH").split()
    ]
    assert f"{agent.host.address}:{agent.reply.port}" in listening
    assert not [
        entry
        for entry in listening
        if entry.endswith(f":{agent.reply.port}") and not entry.startswith(agent.host.address)
    ]
    secret = agent.identity.key.decode().splitlines()[1]
    assert not agent.host.run(
        "sh",
        "-c",
        f"grep -rl {secret} {agent.reply.folder} /tmp /run /root/.ssh 2>/dev/null || true",
    )
    assert secret not in agent.host.run(
        "sh", "-c", "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' ' '"
    )
