"""A transport over many hosts: every task goes to the agent of its host, or is a process of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

from psclust.agent.access import AgentAccess
from psclust.control.agent_client import AgentClient, HostListener
from psclust.control.suspend_detector import start_suspend_detector
from psclust.plan.port_request import PortRequest
from psclust.plan.task_plan import TaskPlan
from psclust.rundir.folder import RunFolder
from psclust.spec.cluster import Task
from psclust.spec.port_range import is_fixed
from psclust.transport.api import Output
from psclust.transport.local_transport import LocalTransport


class RemoteTransport:
    """`local` runs the tasks of hosts without an agent."""

    def __init__(self, local: LocalTransport, folder: RunFolder, listener: HostListener) -> None:
        self._local = local
        self._folder = folder
        self._listener = listener
        self._links: dict[str, AgentClient] = {}
        self._hosts: dict[Task, str] = {}
        self._suspend_detector = start_suspend_detector()

    def connect(self, agents: Sequence[AgentAccess]) -> None:
        """Take over agents that have been started."""
        for access in agents:
            self._links[access.host] = AgentClient(access, self._folder, self._listener, self._suspend_detector)

    def reach(self, addresses: Sequence[str]) -> dict[str, list[str]]:
        """host -> those of the addresses (host:port) that accept a connection from there."""
        with ThreadPoolExecutor(max_workers=max(len(self._links), 1)) as pool:
            return dict(zip(self._links, pool.map(lambda link: link.reach(addresses), self._links.values()), strict=True))

    def listen(self, host: str, addresses: Sequence[str], ports: str) -> list[str]:
        """See `AgentClient.listen`."""
        return self._links[host].listen(addresses, ports)

    def extend_lease(self, seconds: float) -> None:
        for link in self._links.values():
            link.extend_lease(seconds)

    def reserve(self, requests: Sequence[PortRequest]) -> dict[Task, int]:
        groups: dict[str, list[PortRequest]] = {}
        for request in requests:
            self._hosts[request.task] = request.on
            groups.setdefault(request.on, []).append(request)
        remote = {host: wanted for host, wanted in groups.items() if host in self._links}
        local = [request for host, wanted in groups.items() if host not in remote for request in wanted]
        ports = self._local.reserve(local)
        if any(is_fixed(request.wanted) for wanted in remote.values() for request in wanted):
            # Another launcher may want the same ones: in the order of their addresses one of the two gets all, at once each might get some.
            for host in sorted(remote, key=lambda host: remote[host][0].host):
                ports |= self._links[host].reserve(remote[host])
            return ports
        with ThreadPoolExecutor(max_workers=max(len(remote), 1)) as pool:
            for found in pool.map(lambda host: self._links[host].reserve(remote[host]), remote):
                ports |= found
        return ports

    def release(self, task: Task) -> None:
        link = self._link(task)
        link.release(task) if link else self._local.release(task)

    def start(self, plan: TaskPlan, attempt: int, log: Path) -> None:
        self._hosts[plan.task] = plan.host
        link = self._link(plan.task)
        link.start(plan, attempt) if link else self._local.start(plan, attempt, log)

    def signal(self, task: Task, signal: Literal["TERM", "KILL"]) -> None:
        link = self._link(task)
        link.signal(task, signal) if link else self._local.signal(task, signal)

    def output(self, task: Task) -> Output:
        link = self._link(task)
        return link.output(task) if link else self._local.output(task)

    def serving(self, plan: TaskPlan) -> bool:
        link = self._link(plan.task)
        return link.serving(plan.task) if link else self._local.serving(plan)

    def reap(self) -> None:
        self._local.reap()

    def drain(self, task: Task, timeout: float) -> None:
        """An agent has sent a task's output before the news of its end."""
        if self._link(task) is None:
            self._local.drain(task, timeout)

    def progress(self, task: Task) -> str | None:
        """What the task's progress file holds; an agent's tasks have theirs elsewhere, whether or not there is room for a copy here."""
        link = self._link(task)
        if link is not None:
            return link.progress(task)
        try:
            return self._folder.progress(task).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return None

    def silent(self) -> list[str]:
        """The hosts that have not been heard for some time."""
        return [host for host, link in self._links.items() if link.is_silent()]

    def close(self) -> None:
        with ThreadPoolExecutor(max_workers=max(len(self._links), 1)) as pool:
            list(pool.map(lambda link: link.leave(), self._links.values()))
        self._local.close()

    def _link(self, task: Task) -> AgentClient | None:
        return self._links.get(self._hosts.get(task, ""))
