"""Random histories of a run, and what the rules keep in each of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from histories import CHIEF, EVAL, PS, W0, W1, live, make_plan, task_plan
from hypothesis import given
from hypothesis import strategies as st

from psclust.plan.task_plan import RestartPolicy
from psclust.spec.cluster import Task
from psclust.supervise.events import (
    Action,
    Apply,
    End,
    Event,
    Exited,
    Explain,
    Explained,
    HostLost,
    HostSilent,
    Kill,
    Look,
    Looked,
    Move,
    NotMoved,
    NotStarted,
    Reported,
    Restart,
    Serving,
    Signal,
    Stage,
    Start,
    Started,
    Stepped,
    Stop,
    Tick,
)
from psclust.supervise.run_state import RunPhase, RunState
from psclust.supervise.state_machine import transition

POLICY = RestartPolicy("failure", 2, 60, 1, 5)
PLAN = make_plan(
    *(
        replace(task_plan(task, restart=policy), host=host)
        for task, host, policy in (
            (PS, "a", POLICY),
            (CHIEF, "a", replace(POLICY, when="signal")),
            (W0, "a", replace(POLICY, when="signal")),
            (W1, "b", POLICY),
            (EVAL, "b", POLICY),
        )
    )
)
CHANGED = Apply(
    replace(PLAN, tasks=tuple(replace(each, cwd="/elsewhere") for each in PLAN.tasks[2:]))
)
TASKS = [entry.task for entry in PLAN.tasks]


@dataclass
class World:
    """The processes of a run, by which the rules' actions are judged."""

    state: RunState = field(default_factory=RunState)
    now: float = 0.0
    starting: set[Task] = field(default_factory=set)
    alive: set[Task] = field(default_factory=set)
    answers: list[Event] = field(default_factory=list)
    attempts: dict[Task, int] = field(default_factory=dict)
    ended: int = 0

    def possible(self) -> list[Event]:
        """What may happen next."""
        found: list[Event] = [Tick(), Tick(True), Stepped(), *self.answers]
        for task in TASKS:
            if task in self.starting:
                found += [Started(task, 7), NotStarted(task, "no room")]
            if task in self.alive:
                found += [Exited(task, code) for code in (0, 1, -9, 137)]
                found += [Serving(task), *(Reported(task, stage) for stage in Stage)]
            found.append(Restart(task))
        found += [HostSilent(host, silent) for host in ("a", "b") for silent in (True, False)]
        rare: list[Event] = [
            HostLost("a", "is gone"),
            HostLost("b", "is gone"),
            Apply(PLAN),
            CHANGED,
        ]
        rare += [Stop("on request"), Stop("saved", save=True), Kill("at once")]
        return [*found * 3, *rare]

    def happens(self, event: Event) -> None:
        if isinstance(event, Started):
            self.alive.add(event.task)
        if isinstance(event, Started | NotStarted):
            self.starting.discard(event.task)
        if isinstance(event, Exited):
            self.alive.discard(event.task)
        if isinstance(event, HostLost):
            there = {entry.task for entry in PLAN.tasks if entry.host == event.host}
            self.starting -= there
            self.alive -= there
        if event in self.answers:
            self.answers.remove(event)
        before, (self.state, actions) = self.state, transition(self.state, event, self.now)
        if before.phase is RunPhase.ENDED:
            assert not actions
        for action in actions:
            self._obey(action, before)
        for entry in self.state.tasks.values():
            policy = entry.plan.restart
            recent = [at for at in entry.restarts if self.now - at <= policy.window_s]
            assert len(recent) <= policy.max

    def _obey(self, action: Action, before: RunState) -> None:
        match action:
            case Start(plan, attempt):
                assert before.outcome is None
                assert plan.task not in self.alive | self.starting
                assert plan.host not in self.state.lost
                assert attempt == self.attempts.get(plan.task, 0) + 1
                assert {PS} & set(plan.needs) <= self.alive
                self.attempts[plan.task] = attempt
                self.starting.add(plan.task)
            case Signal(task):
                assert self.state.tasks[task].alive
            case Move():
                self.answers.append(NotMoved(action, "no host is left"))
            case Look(since):
                self.answers.append(Looked(since, "worker:0 sleeps"))
            case Explain():
                self.answers.append(Explained("worker:0 sleeps"))
            case End():
                assert not self.alive | self.starting
                assert self.state.phase is RunPhase.ENDED
                self.ended += 1


@given(st.lists(st.tuples(st.integers(0, 10**6), st.floats(0, 40)), max_size=60))
def test_whatever_happens_the_rules_keep_their_promises(
    history: list[tuple[int, float]],
) -> None:
    world = World()
    world.happens(Apply(PLAN))
    for choice, passed in history:
        world.now += passed
        possible = world.possible()
        world.happens(possible[choice % len(possible)])
    world.happens(Kill("the test is over"))
    for task in TASKS:
        if task in world.starting:
            world.happens(NotStarted(task, "stopped before it started"))
        if task in world.alive:
            world.happens(Exited(task, -9))
    assert world.state.phase is RunPhase.ENDED
    assert world.ended == 1


def test_a_task_that_comes_back_goes_on_with_its_attempts() -> None:
    """An agent starts each attempt once, and each has a log."""
    run = live(task_plan(PS), task_plan(W0), task_plan(W1))
    run.at(5, Apply(make_plan(task_plan(PS), task_plan(W0))))
    run.at(6, Exited(W1, -15))
    assert run.at(7, Apply(make_plan(task_plan(PS), task_plan(W0), task_plan(W1)))) == [
        "start worker:1/2"
    ]


def test_a_run_that_has_ended_stays_so() -> None:
    run = live(task_plan(PS))
    run.at(5, Kill("at once"))
    run.at(6, Exited(PS, -9))
    assert run.at(7, Stop("on request"), Kill("again")) == []
