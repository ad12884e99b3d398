"""The Transport of a run on hosts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from psclust.agent.access import AgentAccess
from psclust.control.agent_client import AgentClient, on_all
from psclust.control.forwarded_ports import ForwardedPorts
from psclust.control.suspend_detector import start_suspend_detector
from psclust.errors import PsclustError
from psclust.plan.port_request import PortRequest
from psclust.plan.task_plan import TaskPlan
from psclust.rundir.agents_file import keep_agents, mark_detached
from psclust.rundir.folder import RunFolder
from psclust.spec.cluster import Task
from psclust.spec.port_range import is_fixed
from psclust.supervise.events import Event
from psclust.transport.api import Output, SignalName, Transport
from psclust.transport.gpu_usage import GpuReader
from psclust.transport.local_transport import LocalTransport
from psclust.transport.process_facts import HostFacts, Inspected, Inspector, inspect_host


class RemoteTransport(Transport):
    """Passes each call about a task to the agent of its host, or to `local` if the host has no
    agent. Like every Transport it is called on one thread, the supervisor's; other threads may call
    `probe` and `listen` of the clients that `agents` returns."""

    def __init__(
        self, local: LocalTransport, folder: RunFolder, post: Callable[[Event], object]
    ) -> None:
        self._local = local
        self._folder = folder
        self._post = post
        self._agents: dict[str, AgentClient] = {}
        self._hosts: dict[Task, str] = {}
        self._forwarded = ForwardedPorts()
        self._suspended = start_suspend_detector()
        self._gpus = GpuReader()

    def add_agents(self, agents: Iterable[AgentAccess]) -> None:
        for access in agents:
            earlier = self._agents.get(access.host)
            self._agents[access.host] = AgentClient(
                access, self._folder, self._post, self._suspended
            )
            if earlier is not None:
                earlier.stop()

    def take_agents(self, hosts: Iterable[str]) -> dict[str, AgentClient]:
        """Of these hosts, by name; the caller stops them."""
        return {host: self._agents.pop(host) for host in hosts if host in self._agents}

    def agents(self) -> dict[str, AgentClient]:
        """By host."""
        return dict(self._agents)

    def extend_leases(self, lease_s: float) -> None:
        """For a detached run."""
        mark_detached(self._folder)
        for agent in self._agents.values():
            agent.extend_lease(lease_s)

    def reserve(self, requests: Sequence[PortRequest]) -> dict[Task, int]:
        forwarded = [request for request in requests if request.reached is not None]
        ports = self._reserve([request for request in requests if request.reached is None])
        if forwarded:
            ports |= self._forwarded.reserve(forwarded, self._agents, self._reserve)
        return ports

    def _reserve(self, requests: Sequence[PortRequest]) -> dict[Task, int]:
        groups: dict[str, list[PortRequest]] = {}
        for request in requests:
            # Until it starts there, its process is where it was.
            self._hosts.setdefault(request.task, request.on)
            groups.setdefault(request.on, []).append(request)
        remote = {host: wanted for host, wanted in groups.items() if host in self._agents}
        ports = self._local.reserve(
            [request for host, wanted in groups.items() if host not in remote for request in wanted]
        )
        if any(is_fixed(request.wanted) for wanted in remote.values() for request in wanted):
            # If two launchers want the same fixed ports, asking hosts in the order of their
            # addresses lets one of the two get all.
            found = [
                self._agents[host].reserve(remote[host])
                for host in sorted(remote, key=lambda host: remote[host][0].host)
            ]
        else:
            found = on_all(
                {host: self._agents[host] for host in remote},
                lambda agent: agent.reserve(remote[agent.access.host]),
            )
        for each in found:
            ports |= each
        return ports

    def start(self, plan: TaskPlan, attempt: int, log: Path) -> None:
        self._hosts[plan.task] = plan.host
        agent = self._agent(plan.task)
        agent.start(plan, attempt) if agent else self._local.start(plan, attempt, log)

    def signal(self, task: Task, signal: SignalName) -> None:
        agent = self._agent(task)
        agent.signal(task, signal) if agent else self._local.signal(task, signal)

    def output(self, task: Task) -> Output:
        agent = self._agent(task)
        return agent.tasks.output(task) if agent else self._local.output(task)

    def serving(self, plan: TaskPlan) -> bool:
        agent = self._agent(plan.task)
        return agent.tasks.serving(plan.task) if agent else self._local.serving(plan)

    def inspector(self) -> Inspector:
        agents, gpus, folder = self.agents(), self._gpus, self._folder

        def inspect(
            processes: Collection[Inspected], addresses: Collection[str]
        ) -> Mapping[str, HostFacts]:
            groups: dict[str, list[Inspected]] = {}
            for each in processes:
                groups.setdefault(each.host, []).append(each)

            def look(host: str) -> HostFacts | None:
                try:
                    if host in agents:
                        return agents[host].inspect(groups[host], addresses)
                    return inspect_host(
                        groups[host], {each: each for each in addresses}, folder, gpus.processes()
                    )
                except PsclustError:
                    return None

            with ThreadPoolExecutor(max_workers=max(len(groups), 1)) as pool:
                found = dict(zip(groups, pool.map(look, groups), strict=True))
            return {host: facts for host, facts in found.items() if facts is not None}

        return inspect

    def reap(self) -> None:
        self._local.reap()

    def drain(self, task: Task, timeout_s: float) -> None:
        """An agent sends a task's output before the event of its end."""
        if self._agent(task) is None:
            self._local.drain(task, timeout_s)

    def progress(self, task: Task) -> str | None:
        """Content of the task's progress file, None if it has none."""
        agent = self._agent(task)
        if agent is not None:
            return agent.tasks.progress(task)
        try:
            return self._folder.progress(task).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return None

    def has_agent(self, host: str) -> bool:
        return host in self._agents and not self._agents[host].is_lost

    def silent(self) -> list[str]:
        """Hosts without contact for some time."""
        return [host for host, agent in self._agents.items() if agent.is_silent()]

    def close(self) -> None:
        stopped = on_all(self._agents, AgentClient.stop)
        keep_agents(
            self._folder,
            [host for host, ended in zip(self._agents, stopped, strict=True) if not ended],
        )
        self._local.close()
        self._forwarded.close()

    def _agent(self, task: Task) -> AgentClient | None:
        return self._agents.get(self._hosts.get(task, ""))
