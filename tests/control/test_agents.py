"""A real agent on a test host and its client: tasks, their output, refusals and the end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from started_agents import WORKER, Started

import psclust
from beds.hosts import BedHost
from beds.plans import program_plan
from psclust.agent import agent_pb2 as pb
from psclust.agent.access import server_name
from psclust.agent.agent_calls import agent_stub
from psclust.agent.process import AgentReply, AgentRequest
from psclust.control.certificates import Authority
from psclust.errors import StartError
from psclust.forward.tls import Identity
from psclust.rundir.folder import RunFolder
from psclust.testing.wait import wait_until
from psclust.transport.api import Output

pytestmark = pytest.mark.process


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
    first, *_, marked, rest = started.log().splitlines()
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
    argv = ("/no/such/python", "x.py")
    agent.client.start(program_plan(WORKER, agent.host.name, argv, preload="tensorflow"), 1)
    wait_until(lambda: agent.recorder.events, what="an event")
    assert agent.recorder.events[0][0] == "not started"


def test_a_start_request_that_an_agent_refuses_is_reported(start: Callable[..., Started]) -> None:
    agent = start()
    agent.client.start(program_plan(WORKER, agent.host.name, ()), 1)
    wait_until(lambda: agent.recorder.events, what="an event")
    kind, task, reason = agent.recorder.events[0]
    assert (kind, task) == ("not started", WORKER)
    assert reason.startswith("h1: ")


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


@pytest.mark.parametrize("early", [False, True], ids=["connected", "not connected yet"])
def test_an_agent_that_stops_says_why_and_calls_to_it_fail_at_once(
    start: Callable[..., Started], early: bool
) -> None:
    def stop(host: BedHost, reply: AgentReply) -> None:
        host.run("kill", "-TERM", str(reply.pid))
        log = RunFolder(Path(reply.folder)).supervisor_log
        wait_until(lambda: "stopping: it got SIGTERM" in log.read_text(), what="the agent to stop")

    agent = start(before_connecting=stop) if early else start()
    if not early:
        stop(agent.host, agent.reply)
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
        else grpc.ssl_channel_credentials(
            authority, identity.key.encode(), identity.certificate.encode()
        )
    )
    options = [("grpc.ssl_target_name_override", server_name("h1")), ("grpc.enable_http_proxy", 0)]
    return grpc.secure_channel(agent.target, credentials, options=options)


def _renew(agent: Started, identity: Identity | None) -> str:
    """OK, or the name of gRPC's status for a call with this identity."""
    with _channel(agent, identity) as channel:
        try:
            agent_stub(channel).RenewLease(pb.RenewLeaseRequest(), timeout=5)
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
        agent_stub(channel).RenewLease(pb.RenewLeaseRequest(), timeout=5)


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
    secret = agent.identity.key.splitlines()[1]
    folders = f"{agent.reply.folder} /tmp /run /root/.ssh"

    def files_with(text: str) -> str:
        fresh = f"find {folders} -type f -mmin -5 -size -1024k -print0"
        return agent.host.run(
            "sh", "-c", f"{{ {fresh} | xargs -0 grep -lF -e {text}; }} 2>/dev/null || true"
        )

    agent.host.run("sh", "-c", f"echo to-be-found > {agent.reply.folder}/control")
    assert f"{agent.reply.folder}/control\n" in files_with("to-be-found")
    assert not files_with(secret)
    assert secret not in agent.host.run(
        "sh", "-c", "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' ' '"
    )


_PATIENT = "import time; print('up', flush=True); time.sleep(1000)"


def test_one_that_is_to_end_has_its_tasks_leave_first(start: Callable[..., Started]) -> None:
    agent = start(leave_s=60.0)
    agent.run(_PATIENT)
    agent.wait_for("started", WORKER)
    agent.host.run("kill", "-TERM", str(agent.reply.pid))
    agent.wait_for("leaves", agent.host.name)
    agent.client.signal(WORKER, "TERM")
    agent.wait_for("lost", agent.host.name)
    name = agent.host.name
    assert agent.recorder.events[1:] == [("leaves", name), ("exited", WORKER, -15), ("lost", name)]


@pytest.mark.parametrize("leave_s", [0.0, 1.0])
def test_it_ends_when_the_time_to_leave_is_over(
    start: Callable[..., Started], leave_s: float
) -> None:
    agent = start(leave_s=leave_s)
    agent.run(_PATIENT)
    agent.wait_for("started", WORKER)
    agent.host.run("kill", "-TERM", str(agent.reply.pid))
    agent.wait_for("lost", agent.host.name)
    told = [("leaves", agent.host.name)] if leave_s else []
    assert agent.recorder.events == [("started", WORKER), *told, ("lost", agent.host.name)]


def test_it_ends_at_once_at_the_second_time_and_with_nothing_to_leave(
    start: Callable[..., Started],
) -> None:
    agent, idle = start(leave_s=600.0), start(leave_s=600.0)
    agent.run(_PATIENT)
    agent.wait_for("started", WORKER)
    agent.host.run("kill", "-TERM", str(agent.reply.pid))
    agent.wait_for("leaves", agent.host.name)
    for each in (agent, idle):
        each.host.run("kill", "-TERM", str(each.reply.pid))
        each.wait_for("lost", each.host.name)
