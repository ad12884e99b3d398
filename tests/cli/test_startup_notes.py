"""What `up` says while a cluster comes up, by its plan and the status of its tasks."""

from __future__ import annotations

from typing import Any

import pytest

from psclust.cli.startup_notes import StartupNotes
from psclust.plan.build_plan import Run, build_plan
from psclust.plan.plan_inputs import PlanInputs
from psclust.plan.script_facts import read_facts
from psclust.plan.task_environment import HostEnvironment
from psclust.rundir.status import RunStatus, TaskStatus
from psclust.spec.cluster_file import ClusterFile

WRITTEN_IN = (
    'import sys\nserver = tf.train.Server({"ps": ["localhost:2222"]}, sys.argv[1], '
    "int(sys.argv[2]))\n"
)
TOLD = 'import os\nserver = tf.train.Server(json.loads(os.environ["TF_CONFIG"]))\n'


def notes_of_silent_ps(source: str, **keys: Any) -> list[str]:
    """What is said within five seconds of a cluster whose ps runs, and whose port nothing
    answers."""
    file = ClusterFile(
        **{"name": "test", "jobs": {"ps": 1, "worker": 1}, "program": "train.py", **keys}
    )
    here = HostEnvironment(environ={}, cwd="/project", python="python", shim="/shim.so")
    inputs = PlanInputs(file, {job: read_facts([source]) for job in file.jobs}, {}, here)
    plan = build_plan(inputs, inputs.lay_out(), Run("r", "/runs/r"), {})
    tasks = tuple(
        TaskStatus(
            str(task.task),
            task.role,
            "running",
            "a",
            task.address,
            pid=7,
            attempt=1,
            restarts=0,
            exit_code=None,
            since=0,
            log=None,
        )
        for task in plan.tasks
    )
    notes = StartupNotes(plan)
    return [
        line
        for now in (1.0, 2.0, 6.0)
        for line in notes.updates(RunStatus("test", "r", "/runs/r", "live", 1, 0.0, tasks), now)
    ]


@pytest.mark.parametrize("keys", [{"args": ["{job_name}", "{task_index}"]}, {"role_by": "none"}])
def test_up_waits_at_no_port_that_a_script_with_its_own_addresses_never_uses(
    keys: dict[str, Any],
) -> None:
    assert notes_of_silent_ps(WRITTEN_IN, **keys) == ["test is up: 1 ps, 1 worker"]


def test_up_waits_for_a_ps_script_that_learns_its_address() -> None:
    assert notes_of_silent_ps(TOLD) == ["waiting for ps:0 to answer at 127.0.0.1:auto"]
