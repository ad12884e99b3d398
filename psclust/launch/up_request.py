"""What the user asked `up` or `plan` for, read and checked as far as it can be without starting anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from psclust.plan.cluster_layout import Layout
from psclust.plan.script_facts import ScriptFacts
from psclust.plan.task_environment import HostEnvironment
from psclust.rundir.folder import ClusterFolder
from psclust.rundir.origin import Origin
from psclust.spec.cluster_file import ClusterFile


@dataclass(frozen=True, slots=True)
class UpRequest:
    """file: the cluster file with the flags laid over it; scripts: what the source of each job's program says."""

    file: ClusterFile
    layout: Layout
    launcher: HostEnvironment
    cluster: ClusterFolder
    scripts: Mapping[str, ScriptFacts]
    origin: Origin
