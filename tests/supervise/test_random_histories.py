"""Random histories of a run, and what the rules keep in each of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import get_args

import pytest
from histories import CHIEF, EVAL, PS, W0, W1, live, make_plan, task_plan
from hypothesis import given, settings
from hypothesis import strategies as st

from psclust.placement.home import VariablesHome
from psclust.plan.task_plan import Plan, RestartPolicy
from psclust.spec.cluster import Task
from psclust.spec.jobs import PsFailure, WorkerFailure
from psclust.supervise.events import (
    Action,
    Apply,
    End,
    Event,
    Exited,
    Explain,
    Explained,
    HostLeaves,
    HostLost,
    HostSilent,
    Kill,
    Look,
    Looked,
    Move,
    NotMoved,
    NotStarted,
    Replace,
    Reported,
    Restart,
    Serving,
    Signal,
    Slow,
    Stage,
    Start,
    Started,
    Stepped,
    Stop,
    Tick,
)
from psclust.supervise.restart_rule import failure_rule
from psclust.supervise.run_state import RunPhase, RunState, TaskPhase
from psclust.supervise.state_machine import transition

POLICY = RestartPolicy("failure", 2, 60, 1, 5)
OBSERVED = make_plan(
    *(
        replace(
            task_plan(
                task, restart=policy, host=host, **({"address": None} if task == EVAL else {})
            ),
            leaves=task in (CHIEF, W1),
            grows=task in (CHIEF, W1),
        )
        for task, host, policy in (
            (PS, "a", POLICY),
            (CHIEF, "a", replace(POLICY, when="signal")),
            (W0, "a", replace(POLICY, when="signal")),
            (W1, "b", POLICY),
            (EVAL, "b", POLICY),
        )
    )
)
TASKS = [entry.task for entry in OBSERVED.tasks]
SPARE = "c"
PLANS = st.builds(
    replace,
    st.just(OBSERVED),
    on_ps_failure=st.sampled_from(get_args(PsFailure)),
    on_worker_failure=st.sampled_from(get_args(WorkerFailure)),
    min_workers=st.sampled_from((None, 1, 2)),
    replace_slow=st.sampled_from((None, 3.0)),
)
HISTORIES = st.lists(st.tuples(st.integers(0, 10**6), st.floats(0, 40)), max_size=60)


@dataclass
class World:
    """The processes of a run, by which the rules' actions are judged. calm: the run is up, and
    little happens that ends it. at_once: one of these comes before anything else. together: how
    often all tasks were to start again; born: its value when a task last started."""

    plan: Plan
    calm: bool = False
    state: RunState = field(default_factory=RunState)
    now: float = 0.0
    starting: set[Task] = field(default_factory=set)
    alive: set[Task] = field(default_factory=set)
    answers: list[Event] = field(default_factory=list)
    attempts: dict[Task, int] = field(default_factory=dict)
    at_once: list[Event] = field(default_factory=list)
    ended: int = 0
    together: int = 0
    born: dict[Task, int] = field(default_factory=dict)

    def planned(self, *, crowded: bool = False, slow_at: str | None = None) -> Plan:
        """Without the hosts that are lost or left. crowded: there is no place for a second worker,
        unless all are needed. slow_at: another place of that worker."""
        lost = self.state.given_up
        stays = {W1} if crowded and self.plan.min_workers == 1 else set()
        tasks = (
            replace(each, host=SPARE if each.host in lost and each.task not in stays else each.host)
            for each in self.plan.tasks
        )
        if slow_at is not None:
            tasks = (replace(each, host=slow_at) if each.task == W1 else each for each in tasks)
        return replace(self.plan, tasks=tuple(tasks), lost=lost)

    def changed(self) -> Plan:
        plan = self.planned()
        return replace(
            plan, tasks=tuple(replace(each, cwd="/elsewhere") for each in plan.tasks[2:])
        )

    def elsewhere(self) -> Plan:
        """With other ps for the variables, which move there."""
        plan, number = self.planned(), self.now
        env = {"PSCLUST_VARIABLES": str(number)}
        tasks = (replace(each, env=env) if each.leaves else each for each in plan.tasks)
        return replace(plan, tasks=tuple(tasks), home=VariablesHome(str(number)))

    def fewer(self) -> Plan:
        plan = self.planned()
        return replace(plan, tasks=tuple(each for each in plan.tasks if each.task != W1))

    def possible(self) -> list[Event]:
        """What may happen next."""
        if self.at_once:
            return self.at_once
        found: list[Event] = [Tick(), Tick(True), Stepped(), *self.answers]
        for task in TASKS:
            if task in self.starting:
                found += [Started(task, 7)] * 3
                found += [] if self.calm else [NotStarted(task, "no room")]
            if task in self.alive:
                found += [Exited(task, code) for code in ((-9,) if self.calm else (0, 1, -9, 137))]
                found += [Serving(task)] * 2
                found.append(Stepped(task))
                found += [Reported(task, stage) for stage in Stage if not self.calm]
            found.append(Restart(task))
        found += [HostSilent(host, silent) for host in ("a", "b") for silent in (True, False)]
        rare: list[Event] = [
            HostLost(host, "is gone") for host in ("a", "b") if host not in self.state.lost
        ]
        rare += [HostLeaves(host, "it goes", goes) for host in ("a", "b") for goes in (True, False)]
        plans = [self.planned(), self.planned(crowded=True), self.changed(), self.fewer()]
        plans.append(self.elsewhere())
        rare += [Slow(task, 4.0) for task in (W0, W1)]
        rare += [Apply(plan, save=save) for plan in plans for save in (False, True)]
        if self.calm:
            return [*found * 6, *rare, *(Exited(task, 0) for task in self.alive)]
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
            there = {task for task, entry in self.state.tasks.items() if entry.where == event.host}
            self.starting -= there
            self.alive -= there
            # No plan uses a host that is lost: the supervisor refuses it.
            self.answers = [each for each in self.answers if not isinstance(each, Apply)]
        if event in self.answers:
            self.answers.remove(event)
        if self.at_once:
            self.at_once = []
        before, (self.state, actions) = self.state, transition(self.state, event, self.now)
        if before.phase is RunPhase.ENDED:
            assert not actions
        if self.state.together not in (None, before.together):
            self.together += 1
        if before.together is not None and self.state.together is None:
            assert not (self.alive | self.starting) - {EVAL}
            phases = {task: entry.phase for task, entry in self.state.tasks.items()}
            assert TaskPhase.BACKOFF not in {phases[task] for task in phases if task != EVAL}
        for action in actions:
            self._obey(action, before)
        self._check_failure_rules(event, before)
        if self.state.next_plan is not None:
            awaited = [entry for entry in self.state.tasks.values() if entry.may_save]
            assert {entry.phase for entry in awaited} == {TaskPhase.STOPPING}
        self._check_workers()
        for entry in self.state.tasks.values():
            assert entry.due is None or entry.alive or entry.pending
            policy = entry.plan.restart
            recent = [at for at in entry.restarts if self.now - at <= policy.window_s]
            assert len(recent) <= policy.max

    def _check_workers(self) -> None:
        """Those that the run does without, of which it has enough left."""
        entries = self.state.tasks
        dropped = {task for task, entry in entries.items() if entry.phase is TaskPhase.DROPPED}
        assert dropped <= {W1}
        assert not dropped or self.plan.min_workers == 1 or dropped <= self.state.newcomers
        assert not dropped & (self.alive | self.starting)

    def _check_failure_rules(self, event: Event, before: RunState) -> None:
        entries = self.state.tasks
        of_one_start = {
            self.born[task]
            for task in (self.alive | self.starting) - {EVAL}
            if task in entries and entries[task].phase is not TaskPhase.STOPPING
        }
        assert not of_one_start - {self.together}
        if not isinstance(event, Exited) or event.task not in entries:
            return
        counted = [
            task
            for task, entry in entries.items()
            if task in before.tasks and len(entry.restarts) > len(before.tasks[task].restarts)
        ]
        assert set(counted) <= {event.task, *self._lost_tasks()}
        rule = failure_rule(before, before.tasks[event.task].plan)
        if rule is not None and rule.value == "fail":
            assert entries[event.task].phase is not TaskPhase.BACKOFF
        if rule is not None and rule.value != "restart-all":
            assert self.state.together == before.together or self.state.together is None

    def _lost_tasks(self) -> set[Task]:
        """A move counts as a restart."""
        return {
            task for task, entry in self.state.tasks.items() if entry.plan.host in self.state.lost
        }

    def _obey(self, action: Action, before: RunState) -> None:
        match action:
            case Start(plan, attempt):
                assert before.outcome is None
                assert plan.task not in self.alive | self.starting
                assert plan.host not in self.state.lost
                assert attempt == self.attempts.get(plan.task, 0) + 1
                assert {PS} & set(plan.needs) <= self.alive
                assert self.state.together is None
                self.attempts[plan.task] = attempt
                self.born[plan.task] = self.together
                self.starting.add(plan.task)
            case Signal(task):
                assert self.state.tasks[task].alive
            case Move():
                plans = [self.planned(crowded=crowded) for crowded in (False, True)]
                answers = [NotMoved(action, "no host is left"), *map(Apply, plans)]
                if action.leaves:
                    answers += [Apply(plan, save=True) for plan in plans]
                    self.at_once = answers
                    # It was planned before the host was to be left.
                    self.answers = [each for each in self.answers if not isinstance(each, Apply)]
                else:
                    self.answers += answers
                assert {W0, CHIEF, PS}.isdisjoint(action.absent)
            case Replace(task):
                assert task == W1
                assert self.plan.replace_slow is not None
                elsewhere = SPARE if self.state.tasks[W1].plan.host != SPARE else "b"
                if elsewhere not in self.state.lost:
                    self.answers.append(Apply(self.planned(slow_at=elsewhere)))
            case Look(since):
                self.answers.append(Looked(since, "worker:0 sleeps"))
            case Explain():
                self.answers.append(Explained("worker:0 sleeps"))
            case End():
                assert not self.alive | self.starting
                assert self.state.phase is RunPhase.ENDED
                self.ended += 1


@given(PLANS, HISTORIES, st.booleans())
def test_whatever_happens_the_rules_keep_their_promises(
    plan: Plan, history: list[tuple[int, float]], calm: bool
) -> None:
    play(plan, history, calm)


@pytest.mark.long
@settings(max_examples=max(10_000, settings.default.max_examples))
@given(PLANS, HISTORIES, st.booleans())
def test_in_ten_thousand_histories_the_rules_keep_their_promises(
    plan: Plan, history: list[tuple[int, float]], calm: bool
) -> None:
    play(plan, history, calm)


def play(plan: Plan, history: list[tuple[int, float]], calm: bool) -> None:
    """The history, and the end of its run."""
    world = World(plan, calm)
    world.happens(Apply(plan))
    if calm:
        for task in [PS, *(task for task in TASKS if task != PS)]:
            world.happens(Started(task, 7))
            world.happens(Serving(task))
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
