"""Every file in cluster_specs/ loads, and its plan is what it was (`make golden` writes the plans
anew; read the difference)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from beds.found_nodes import find_four_nodes
from psclust.cli.verbs.plan import render_plan
from psclust.plan.build_plan import Run, build_plan
from psclust.plan.cluster_layout import lay_out
from psclust.plan.plan_inputs import PlanInputs
from psclust.plan.task_environment import HostEnvironment
from psclust.plan.task_plan import Plan
from psclust.spec.load import load

SPECS = Path(__file__).parents[2] / "cluster_specs"
GOLDEN = Path(__file__).parent / "golden"
LAUNCHER = HostEnvironment(
    environ={}, cwd="/home/me/project", python="/usr/bin/python3", shim="/usr/lib/server_shim.so"
)


def plan_of(path: Path) -> Plan:
    file = load(path, [], default_name=path.stem, find_hosts=find_four_nodes)
    layout = lay_out(file)
    requests = layout.port_requests(file.ports)
    ports = {
        entry.task: int(entry.wanted) if entry.wanted.isdigit() else 30000 + number
        for number, entry in enumerate(requests)
    }
    run = Run("20260101-000000-abcdef", "/runs/r")
    return build_plan(PlanInputs(file, {}, {}, LAUNCHER), layout, run, ports)


@pytest.mark.parametrize("path", sorted(SPECS.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_plan_of_every_cluster_file_is_as_it_was(path: Path) -> None:
    plan = plan_of(path)
    text = render_plan(plan) + "\n"
    golden = GOLDEN / f"{path.stem}.txt"
    if os.environ.get("PSCLUST_GOLDEN") == "write":
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
    assert Plan.from_json(plan.to_json()) == plan


def test_no_plan_is_left_of_a_file_that_is_gone() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == {
        path.stem for path in SPECS.glob("*.yaml")
    }
