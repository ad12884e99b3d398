"""Agents on a test host, each with a client here that records what it is told."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psclust
from beds.hosts import BedHost, HostBed
from beds.plans import program_plan
from psclust.agent.access import AgentAccess
from psclust.agent.process import AgentReply, AgentRequest
from psclust.control.agent_client import AgentClient
from psclust.control.certificates import Authority
from psclust.control.suspend_detector import start_suspend_detector
from psclust.forward.tls import Identity
from psclust.rundir.folder import RunFolder
from psclust.spec.cluster import Host, Task, TunnelWay
from psclust.supervise import events
from psclust.supervise.events import Event
from psclust.testing.wait import wait_until

WORKER = Task("worker", 0)


@dataclass
class Recorder:
    """Records the events that are posted to it."""

    events: list[Any] = field(default_factory=list)
    silences: list[bool] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    evidence: list[str | None] = field(default_factory=list)

    def post(self, event: Event) -> None:
        match event:
            case events.Started(task):
                self.events.append(("started", task))
            case events.NotStarted(task, reason):
                self.events.append(("not started", task, reason))
            case events.Exited(task, code, out_of_memory=evidence):
                self.events.append(("exited", task, code))
                self.evidence.append(evidence)
            case events.HostLost(host):
                self.events.append(("lost", host))
            case events.HostLeaves(host):
                self.events.append(("leaves", host))
            case events.HostSilent(_, silent):
                self.silences.append(silent)
            case events.Note(text):
                self.notes.append(text)


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


@contextmanager
def starting(bed: HostBed, folder: Path) -> Iterator[Callable[..., Started]]:
    """A function that starts an agent on the first host; all end with the block. `folder`: for the
    run folders on this side."""
    clients: list[AgentClient] = []
    suspended = start_suspend_detector()

    def start(
        lease_s: float = 20.0,
        environ: dict[str, str] | None = None,
        via: Host | None = None,
        before_connecting: Callable[[BedHost, AgentReply], None] = lambda host, reply: None,
        leave_s: float = 0.0,
    ) -> Started:
        host, authority = bed[0], Authority("test")
        run = f"run-{len(clients)}-{os.urandom(3).hex()}"
        identity = authority.agent(host.name)
        own = str(host.home / ".local" / "state" / run)
        request = AgentRequest(
            host.name, own, host.address, lease_s, 2.0, identity, environ or {}, leave_s=leave_s
        )
        where = f"PYTHONPATH={Path(psclust.__file__).parents[1]}"
        command = host.command(
            "env", f"HOME={host.home}", where, sys.executable, "-m", "psclust.agent"
        )
        done = subprocess.run(
            command, input=request.to_json(), capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        reply, recorder = AgentReply.from_json(done.stdout), Recorder()
        here = RunFolder(folder / run)
        here.create()
        before_connecting(host, reply)
        access = AgentAccess(
            host.name,
            f"{host.address}:{reply.port}",
            authority.launcher(),
            lease_s,
            TunnelWay("ssh", via, {}) if via else None,
        )
        clients.append(AgentClient(access, here, recorder.post, suspended))
        return Started(host, authority, identity, reply, clients[-1], recorder, here)

    try:
        yield start
    finally:
        for client in clients:
            client.stop()
