"""What the plans of a run are made of, kept for those that follow the first."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

from pydantic import TypeAdapter

from psclust.plan.cluster_layout import ClusterLayout, lay_out
from psclust.plan.script_facts import ScriptFacts
from psclust.plan.task_environment import HostEnvironment
from psclust.spec.cluster import Task
from psclust.spec.cluster_file import ClusterFile


@dataclass(frozen=True, slots=True)
class RemoteHost:
    """A host with an agent: what tasks inherit there, the run's folder, and the address at which
    others reach it. forwarder: where its forwarder is reached by the others', if the run is
    encrypted; then the address is 127.0.0.1."""

    environment: HostEnvironment
    folder: str
    address: str
    forwarder: str | None = None


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """`scripts`: the facts of each job's Python program, if its source can be read; `remote_hosts`:
    every host with an agent, by name, including lost ones; none if all tasks run on this machine;
    `launcher`: the machine that started the run, with the variables that planning depends on;
    `job_restarts`: how often the batch job around the run has been started again."""

    file: ClusterFile
    scripts: Mapping[str, ScriptFacts]
    remote_hosts: Mapping[str, RemoteHost]
    launcher: HostEnvironment
    job_restarts: int = 0

    def reached(self, layout: ClusterLayout) -> ClusterLayout:
        """The layout with the addresses of the hosts."""
        hosts = self.remote_hosts
        return replace(
            layout,
            addresses={name: host.address for name, host in hosts.items()},
            forwarders={name: host.forwarder for name, host in hosts.items()},
        )

    def lay_out(
        self,
        lost: Sequence[str] = (),
        kept: Mapping[Task, str] = MappingProxyType({}),
        absent: Collection[Task] = (),
    ) -> ClusterLayout:
        """See `psclust.plan.cluster_layout.lay_out`."""
        return self.reached(lay_out(self.file, lost, kept, absent))

    def to_json(self) -> str:
        """Of the file only what was set, so that its copy says no more."""
        return _adapter().dump_json(self, exclude_unset=True).decode()

    @classmethod
    def from_json(cls, text: str) -> PlanInputs:
        return _adapter().validate_json(text)


@cache
def _adapter() -> TypeAdapter[PlanInputs]:
    return TypeAdapter(PlanInputs)
