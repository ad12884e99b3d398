"""The inputs of the plan of a run on other hosts, kept to plan again when `up` changes the run or a
host is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter

from psclust.plan.build_plan import RemoteHost, Run, build_plan
from psclust.plan.cluster_layout import ClusterLayout, lay_out
from psclust.plan.script_facts import ScriptFacts
from psclust.plan.task_environment import HostEnvironment
from psclust.plan.task_plan import Plan
from psclust.spec.cluster import Task
from psclust.spec.cluster_file import ClusterFile

_HERE = HostEnvironment(
    environ={}, cwd="", python="", shim=None
)  # every task runs on a remote host


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """`scripts`: the facts of each job's Python program; `remote_hosts`: every host, by name,
    including lost ones."""

    file: ClusterFile
    scripts: Mapping[str, ScriptFacts]
    remote_hosts: Mapping[str, RemoteHost]

    def lay_out(self, lost: Sequence[str]) -> ClusterLayout:
        """See `psclust.plan.cluster_layout.lay_out`."""
        return lay_out(self.file, lost).reached_at(
            {name: host.address for name, host in self.remote_hosts.items()}
        )

    def plan(self, layout: ClusterLayout, run: Run, ports: Mapping[Task, int]) -> Plan:
        """See `psclust.plan.build_plan.build_plan`."""
        return build_plan(
            self.file,
            layout,
            _HERE,
            run,
            ports,
            scripts=self.scripts,
            remote_hosts=self.remote_hosts,
        )

    def to_json(self) -> str:
        return TypeAdapter(PlanInputs).dump_json(self).decode()

    @classmethod
    def from_json(cls, text: str) -> PlanInputs:
        return TypeAdapter(PlanInputs).validate_json(text)
