"""`deadlines.progress`, by replaying histories."""

from __future__ import annotations

from dataclasses import replace

from histories import LIMITS, PS, W0, W1, Replay, make_plan, task_plan, word

from psclust.supervise.events import (
    Action,
    Event,
    Exited,
    Explain,
    Explained,
    Look,
    Reported,
    Stage,
    Started,
    Stepped,
    Tick,
)
from psclust.supervise.state_machine import transition


class Asked(Replay):
    """A run of two workers, up, that may make no step for a minute."""

    def at(self, now: float, *events: Event) -> list[str]:
        found: list[Action] = []
        for event in events:
            self.state, actions = transition(self.state, event, now)
            found += [action for action in actions if not isinstance(action, Look)]
        return ["explain" if isinstance(action, Explain) else word(action) for action in found]


def run() -> Asked:
    limits = replace(LIMITS, progress_s=60)
    asked = Asked(make_plan(task_plan(PS), task_plan(W0), task_plan(W1), deadlines=limits))
    asked.up()
    return asked


def test_the_reason_is_asked_for_once_shown_and_then_the_run_ends() -> None:
    asked = run()
    assert asked.at(60.9, Tick()) == []
    assert asked.at(61, Tick()) == ["explain"]
    assert asked.at(62, Tick()) == []
    assert asked.at(63, Explained("why")) == []
    assert asked.state.notes == ("why",)
    assert asked.at(63.5, Tick()) == []
    assert asked.at(64, Tick()) == ["TERM ps:0", "TERM worker:0", "TERM worker:1"]
    assert (asked.outcome.exit_code, asked.outcome.text) == (
        1,
        "no step was made for 60 s (deadlines.progress)",
    )


def test_every_step_and_every_start_begins_the_time_anew() -> None:
    asked = run()
    asked.at(50, Stepped())
    assert asked.at(109, Tick()) == []
    asked.at(109, Exited(W1, -9))
    asked.at(111, Tick(), Started(W1, 9))
    assert asked.at(170, Tick()) == []
    assert asked.at(171, Tick()) == ["explain"]


def test_a_step_that_comes_meanwhile_saves_the_run() -> None:
    asked = run()
    assert asked.at(61, Tick()) == ["explain"]
    asked.at(62, Stepped(), Explained("why"))
    assert asked.at(64, Tick()) == []
    assert asked.at(122, Tick()) == ["explain"]
    asked.at(123, Explained("why now"))
    assert len(asked.at(124, Tick())) == 3


def test_a_run_that_only_evaluates_or_has_no_limit_may_stand_still() -> None:
    asked = run()
    asked.at(5, Reported(W0, Stage.TRAINED), Exited(W1, 0))
    assert asked.at(1000, Tick()) == []
    free = Asked(make_plan(task_plan(PS), task_plan(W0)))
    free.up()
    assert free.at(1_000_000, Tick()) == []
