"""Histories to replay to the rules of a run, in memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from beds.plans import program_plan
from psclust.plan.task_plan import Deadlines, Plan, RestartPolicy, TaskPlan
from psclust.spec.cluster import ClusterSpec, Task
from psclust.supervise.events import (
    Apply,
    End,
    Event,
    Look,
    Move,
    Outcome,
    Serving,
    Signal,
    Start,
    Started,
)
from psclust.supervise.run_state import RunState, TaskPhase
from psclust.supervise.state_machine import transition

PS, W0, W1, CHIEF, EVAL = (
    Task("ps", 0),
    Task("worker", 0),
    Task("worker", 1),
    Task("chief", 0),
    Task("evaluator", 0),
)
LIMITS = Deadlines(start_s=60, stop_s=10, finish_s=30, run_s=None, lost_s=7)
# The last output of a script that does not know a flag.
USAGE = ("usage: train.py [-h]", "train.py: error: unrecognized arguments: --job_name=worker")


def task_plan(task: Task, **changes: object) -> TaskPlan:
    serves = task.job == "ps"
    helps = serves or task.job == "evaluator"
    usual = {
        "address": f"127.0.0.1:{2000 + task.index}",
        "role": "server" if serves else "side" if helps else "program",
        "serves": serves,
        "needs": () if serves else (PS,),
        "decides": task.job == "worker",
        "restart": RestartPolicy("failure" if helps else "signal", 3, 600, 1, 30),
    }
    return replace(program_plan(task, "localhost", ("run", str(task))), **(usual | changes))  # type: ignore[arg-type]


def live(*tasks: TaskPlan, deadlines: Deadlines = LIMITS) -> Replay:
    """A run of these tasks that is up."""
    return Replay(make_plan(*tasks, deadlines=deadlines)).up()


def make_plan(*tasks: TaskPlan, deadlines: Deadlines = LIMITS) -> Plan:
    return Plan("test", ClusterSpec({}), tasks, deadlines)


@dataclass
class Replay:
    """Feeds a history to the rules; what they ask for is in `said`, as short words, but for looks
    at a silent run (`test_silence`)."""

    plan: Plan
    state: RunState = field(default_factory=RunState)
    said: list[str] = field(default_factory=list)

    def at(self, now: float, *events: Event) -> list[str]:
        fresh: list[str] = []
        for event in events:
            self.state, actions = transition(self.state, event, now)
            fresh += [word(action) for action in actions if not isinstance(action, Look)]
        self.said += fresh
        return fresh

    def phase(self, task: Task) -> TaskPhase:
        return self.state.tasks[task].phase

    def up(self) -> Replay:
        """Everything started, every server answering, by second 1."""
        self.at(0, Apply(self.plan))
        for number, entry in enumerate(sorted(self.plan.tasks, key=lambda entry: not entry.serves)):
            self.at(1, Started(entry.task, 100 + number))
            if entry.serves:
                self.at(1, Serving(entry.task))
        self.said.clear()
        return self

    @property
    def outcome(self) -> Outcome:
        assert self.state.outcome is not None
        return self.state.outcome


def word(action: object) -> str:
    if isinstance(action, Start):
        return f"start {action.plan.task}/{action.attempt}"
    if isinstance(action, Signal):
        return f"{action.signal} {action.task}"
    if isinstance(action, Move):
        return f"move off {', '.join(action.lost)}"
    assert isinstance(action, End)
    return f"end {action.outcome.exit_code}"
