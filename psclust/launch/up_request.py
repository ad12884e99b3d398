"""The request behind `up` and `plan`: a cluster file with flags laid over it, checked and planned
without any host or port."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from psclust.agent.addresses import every_own_address
from psclust.launch.default_file import default_name, unread_file
from psclust.launch.program_sources import read_scripts, suited_to_script
from psclust.plan.build_plan import Run, build_plan, first_tasks
from psclust.plan.cluster_layout import ClusterLayout, lay_out
from psclust.plan.encryption import is_encrypted
from psclust.plan.plan_inputs import PlanInputs, RemoteHost
from psclust.plan.script_facts import ScriptFacts
from psclust.plan.task_environment import HostEnvironment
from psclust.plan.task_plan import Plan, TaskPlan
from psclust.reach.ways import batch_system, find_hosts
from psclust.rundir.folder import ClusterFolder, RunFolder, state_root
from psclust.rundir.origin import Origin
from psclust.spec.checks import Rule
from psclust.spec.cluster_file import ClusterFile, ClusterText
from psclust.spec.found_hosts import FindHosts
from psclust.spec.load import Override, load
from psclust.transport.server_shim import server_shim


@dataclass(frozen=True)
class UpRequest:
    """file: the cluster file with the flags laid over it; scripts: facts about each job's program;
    job_restarts: see `psclust.plan.build_plan.PlanInputs`."""

    file: ClusterFile
    layout: ClusterLayout
    launcher: HostEnvironment
    cluster: ClusterFolder
    scripts: Mapping[str, ScriptFacts]
    origin: Origin
    job_restarts: int = 0

    @cached_property
    def first_tasks(self) -> Mapping[str, TaskPlan]:
        """See `psclust.plan.build_plan.first_tasks`."""
        return first_tasks(self.inputs(), self.layout, self._run)

    @property
    def _run(self) -> Run:
        """Before there is one."""
        return Run.of(RunFolder(self.cluster.path / "<run>"))

    def inputs(self, remote_hosts: Mapping[str, RemoteHost] = MappingProxyType({})) -> PlanInputs:
        """What its plans are made of. remote_hosts: those with an agent."""
        return PlanInputs(self.file, self.scripts, remote_hosts, self.launcher, self.job_restarts)

    def plan_before_start(self) -> Plan:
        """Without the ports that psclust chooses and what only other hosts know."""
        layout = self.layout
        if self.file.hosts and is_encrypted(self.file, layout):
            local = {host.name: "127.0.0.1" for host in self.file.hosts}
            layout = replace(layout, addresses=local)
        return build_plan(self.inputs(), layout, self._run, layout.fixed_ports(self.file.ports))


def read_request(
    path: str | None,
    overrides: Sequence[Override] = (),
    run_dir: str | None = None,
    *,
    rules: Sequence[Rule] = (),
    find_hosts: FindHosts = find_hosts,
    array_task: str | None = None,
) -> UpRequest:
    """path: of the cluster file; None: the flags alone. The others: see `psclust.spec.load.load`.
    Raises ClusterFileError with every mistake, or UsageError."""
    file = load(
        Path(path) if path else None,
        overrides,
        default_name=default_name(path),
        rules=rules,
        find_hosts=find_hosts,
        suit=suited_to_script if path else _suited_without_file,
        array_task=array_task or batch_system().array_task(os.environ),
    )
    launcher = HostEnvironment(
        environ=dict(os.environ),
        cwd=os.getcwd(),
        python=sys.executable,
        shim=server_shim(),
        cores=len(os.sched_getaffinity(0)),
        addresses=tuple(every_own_address()),
    )
    layout = lay_out(file)
    cluster = ClusterFolder(state_root(os.environ, run_dir) / file.name)
    scripts = read_scripts(file, layout, os.environ)
    restarts = batch_system().restarts(os.environ)
    origin = Origin.of(path, launcher.cwd)
    return UpRequest(file, layout, launcher, cluster, scripts, origin, restarts)


def _suited_without_file(text: ClusterText) -> tuple[ClusterText, str | None]:
    suited, note = suited_to_script(text)
    return suited, note or (unread_file() if text.program is None else None)
