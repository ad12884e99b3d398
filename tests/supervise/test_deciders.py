"""Whose end ends a run, and who is waited for then, by replaying histories."""

from __future__ import annotations

import pytest
from histories import CHIEF, PS, W0, W1, Replay, live, task_plan

from psclust.plan.task_plan import TaskPlan
from psclust.spec.cluster import Task
from psclust.supervise.events import Event, Exited, Reported, Stage, Tick
from psclust.supervise.run_state import RunPhase, TaskPhase

CONTROLLER = Task("controller", 0)
LED = (task_plan(PS), task_plan(CHIEF, decides=True), task_plan(W0, decides=False))
WORKERS = (task_plan(W0, needs=()), task_plan(W1, needs=()))
CONTROLLED = (task_plan(CONTROLLER, decides=False, needs=()), *WORKERS)
JOINED = (Reported(W0, Stage.JOINED), Reported(W1, Stage.JOINED))

# The tasks -> what happens at 2, 5, ... seconds, each time with what is done about it.
HISTORIES: dict[str, tuple[tuple[TaskPlan, ...], list[tuple[tuple[Event, ...], list[str]]]]] = {
    "a worker that has joined its server is not waited for when the chief is done": (
        LED,
        [
            ((Reported(W0, Stage.JOINED),), []),
            ((Exited(CHIEF, 0),), ["TERM ps:0", "TERM worker:0"]),
        ],
    ),
    "where only the first worker works and the others join, its end ends the run": (
        (task_plan(PS), task_plan(W0), task_plan(W1)),
        [
            ((Reported(W1, Stage.JOINED),), []),
            ((Exited(W0, 0),), ["TERM ps:0", "TERM worker:1"]),
        ],
    ),
    "a worker that fails after the chief is done does not spoil the run": (
        LED,
        [((Exited(CHIEF, 0),), []), ((Exited(W0, 1),), ["TERM ps:0"])],
    ),
    "when all workers serve, another program decides": (
        CONTROLLED,
        [(JOINED, []), ((Exited(CONTROLLER, 0),), ["TERM worker:0", "TERM worker:1"])],
    ),
    "workers that join after the controller has ended end the run": (
        CONTROLLED[:2],
        [
            ((Exited(CONTROLLER, 0),), []),
            ((Reported(W0, Stage.JOINED),), ["TERM worker:0"]),
        ],
    ),
    "while a worker works no controller decides": (
        CONTROLLED,
        [((Reported(W1, Stage.JOINED),), []), ((Exited(CONTROLLER, 0),), [])],
    ),
    "programs that are only servers any more wait for a client from outside": (
        WORKERS,
        [(JOINED, [])],
    ),
    "a run with a ps in which all have joined goes on": (
        (task_plan(PS), task_plan(W0), task_plan(W1)),
        [(JOINED, [])],
    ),
    "where nobody is to decide nobody does": (
        (CONTROLLED[0], task_plan(W0, decides=False, needs=())),
        [((Reported(W0, Stage.JOINED),), []), ((Exited(CONTROLLER, 0),), [])],
    ),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_whose_end_ends_a_run(name: str) -> None:
    plans, history = HISTORIES[name]
    run = live(*plans)
    for number, (events, said) in enumerate(history):
        assert run.at(2 + 3 * number, *events) == said
    assert run.state.outcome is None or run.outcome.ok


def test_the_chief_decides_and_workers_get_a_grace() -> None:
    run = live(*LED)
    assert run.at(5, Exited(CHIEF, 0)) == []
    assert run.state.phase is RunPhase.FINISHING
    assert run.at(34, Tick()) == []
    assert run.at(35, Tick()) == ["TERM ps:0", "TERM worker:0"]
    run.at(36, Exited(PS, -15))
    assert run.at(36, Exited(W0, -15)) == ["end 0"]
    assert "worker:0 had not ended 30 s after the others" in run.outcome.text


def test_a_program_that_has_ended_well_may_serve_on_and_counts_as_done(run: Replay) -> None:
    assert run.at(2, Reported(W0, Stage.FINISHED)) == []
    assert run.at(3, Exited(W0, -9)) == []
    assert run.phase(W0) is TaskPhase.DONE
    assert run.at(5, Reported(W1, Stage.FINISHED)) == ["TERM ps:0", "TERM worker:1"]
    assert run.at(5.1, Exited(PS, -15), Exited(W1, -15)) == ["end 0"]
    assert (run.phase(W1), run.state.tasks[W1].exit_code) == (TaskPhase.DONE, 0)
