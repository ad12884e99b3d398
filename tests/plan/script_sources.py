"""Sources of scripts that learn their role in one way or another, or not at all, and plans for
them."""

from __future__ import annotations

from typing import Any

from psclust.plan.build_plan import Run, build_plan
from psclust.plan.cluster_layout import lay_out
from psclust.plan.plan_inputs import PlanInputs
from psclust.plan.script_facts import read_facts
from psclust.plan.task_environment import HostEnvironment
from psclust.plan.task_plan import Plan
from psclust.spec.cluster import Task
from psclust.spec.cluster_file import ClusterFile

ALL = ("--ps_hosts", "--worker_hosts", "--job_name", "--task_index")
CLASSIC = "".join(f'p.add_argument("{flag}")\n' for flag in ALL)
READS = 'import os\ntold = os.environ["TF_CONFIG"]\n'
SILENT = "print('hello')\n"
LAUNCHER = HostEnvironment(environ={}, cwd="/project", python="python", shim="/shim.so")


def plan_of(
    source: str | None,
    ports: dict[Task, int] | None = None,
    launcher: HostEnvironment = LAUNCHER,
    **keys: Any,
) -> Plan:
    """Of a ps and two workers, `keys` aside, whose program has this source in every job."""
    file = ClusterFile(**{"name": "test", "jobs": {"ps": 1, "worker": 2}, **keys})
    layout = lay_out(file)
    known = {} if source is None else {entry.name: read_facts([source]) for entry in layout.jobs}
    inputs = PlanInputs(file, known, {}, launcher)
    return build_plan(inputs, layout, Run("r1", "/runs/r1"), ports or {})
