"""What a supervisor repeats takes little of the time, however many tasks it looks at."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from histories import make_plan, task_plan
from pretence import Pretence, supervised

from psclust.plan.task_plan import TaskPlan
from psclust.rundir.task_progress import Progress
from psclust.spec.cluster import Task
from psclust.supervise.events import Note
from psclust.supervise.pace import Pace
from psclust.testing.wait import wait_until

EVENTS = 300
STEPS = 50


@pytest.mark.parametrize(
    ("took_s", "wait_s"),
    [
        pytest.param(0.001, 0.099, id="work that takes no time is repeated as often as it may be"),
        pytest.param(0.02, 0.18, id="slow work takes a tenth of the time"),
        pytest.param(60.0, 0.5, id="a process that stood still goes on soon"),
    ],
)
def test_the_pause_depends_on_how_long_the_work_took(
    monkeypatch: pytest.MonkeyPatch, took_s: float, wait_s: float
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    pace = Pace(0.1)
    assert pace.wait_s() == 0
    with pace.working():
        now[0] += took_s
    assert pace.wait_s() == pytest.approx(wait_s)
    now[0] += wait_s
    assert pace.wait_s() == pytest.approx(0)


@dataclass
class NotServing(Pretence):
    """Tells that no server answers, slowly."""

    probes: list[Task] = field(default_factory=list)

    def serving(self, plan: TaskPlan) -> bool:
        self.probes.append(plan.task)
        time.sleep(0.01)
        return False


@dataclass
class Stepping(Pretence):
    """Every look at the progress finds another step."""

    step: int = 0

    def progress(self, task: Task) -> str | None:
        self.step += 1
        return Progress(step=self.step, phase="training").to_json()


def test_a_step_is_not_published_as_no_status_shows_it(tmp_path: Path) -> None:
    with supervised(tmp_path, Stepping) as transport:
        supervisor = transport.supervisor
        supervisor.apply(make_plan(task_plan(Task("worker", 0), needs=())))
        wait_until(lambda: transport.step > 2, what="the first steps")
        supervisor.post(Note("steps are made"))
        wait_until(
            lambda: "steps are made" in supervisor.status().notes, what="what is published before"
        )
        version, _ = supervisor.wait_for_change(-1, 0)
        first = transport.step

        def look() -> int:
            supervisor.call(lambda: None)
            return transport.step - first

        wait_until(lambda: look() > STEPS, what="many steps")
        assert supervisor.wait_for_change(version, 0)[0] == version


def test_events_that_come_together_are_not_followed_by_a_probe_each(tmp_path: Path) -> None:
    with supervised(tmp_path, NotServing) as transport:
        supervisor = transport.supervisor
        supervisor.apply(make_plan(task_plan(Task("ps", 0))))
        wait_until(lambda: transport.probes, what="the first probe")
        for number in range(EVENTS):
            supervisor.post(Note(f"event {number}"))
        wait_until(lambda: f"event {EVENTS - 1}" in supervisor.status().notes, what="the last")
        assert 0 < len(transport.probes) < EVENTS / 2
