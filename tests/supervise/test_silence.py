"""When a silent run is looked at, by replaying histories."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from histories import CHIEF, PS, W0, W1, Replay, make_plan, task_plan

from psclust.rundir.task_progress import Progress
from psclust.supervise.events import (
    Event,
    Exited,
    Look,
    Looked,
    Note,
    Progressed,
    Reported,
    Stage,
    Started,
    Stepped,
    Stop,
    Tick,
)
from psclust.supervise.state_machine import transition


@dataclass
class Watched(Replay):
    """A run whose looks are kept."""

    looks: list[Look] = field(default_factory=list)

    def at(self, now: float, *events: Event) -> list[str]:
        for event in events:
            self.state, actions = transition(self.state, event, now)
            self.looks += [action for action in actions if isinstance(action, Look)]
        return []

    def look_at(self, now: float) -> Look | None:
        """The look that time asks for."""
        self.looks.clear()
        self.at(now, Tick())
        return self.looks[0] if self.looks else None

    def answer(self, now: float, text: str | None) -> str | None:
        """The text that is shown after an answer to the last look."""
        self.at(now, Looked(self.state.silence.since, text))
        return self.state.silence.text


def watched() -> Watched:
    """Up since second 1."""
    run = Watched(make_plan(task_plan(PS), task_plan(W0), task_plan(W1)))
    run.up()
    return run


@pytest.mark.parametrize(
    "sign",
    [
        Tick(printed=True),
        Stepped(),
        Progressed(W0, Progress(phase="evaluate")),
        Exited(W1, 0),
        Reported(W1, Stage.FINISHED),
        Exited(W1, -9),
    ],
    ids=str,
)
def test_every_sign_of_life_begins_the_silence_anew(sign: Event) -> None:
    run = watched()
    run.at(20, sign)
    assert run.look_at(49.9) is None
    assert run.look_at(50) is not None


def test_time_and_psclusts_own_words_are_no_sign_of_life() -> None:
    run = watched()
    run.at(20, Tick(), Note("a"))
    assert run.look_at(30.9) is None
    assert run.look_at(31) == Look(1, evident=False)


def test_the_answer_is_shown_once_until_there_are_signs_again() -> None:
    run = watched()
    run.at(5, Exited(W1, 0))
    assert run.look_at(35) == Look(5, evident=True)
    assert run.look_at(36) is None
    assert run.answer(36, "worker:1 has ended") == "worker:1 has ended"
    assert run.look_at(1000) is None
    run.at(1001, Stepped())
    assert run.state.silence.text is None


def test_a_program_that_prints_now_and_then_brings_few_messages() -> None:
    run, shown = watched(), 0
    run.at(5, Exited(W1, 0))
    for minute in range(60):
        now = 60.0 * minute + 5
        run.at(now, Tick(printed=True))
        if run.look_at(now + 59):
            shown += run.answer(now + 59, "worker:1 has ended") is not None
    assert shown == 1


def test_another_end_makes_a_message_worthwhile_again() -> None:
    run = watched()
    assert run.look_at(31) is not None
    run.answer(31, "no task uses the CPU")
    run.at(40, Exited(W1, 0))
    assert run.look_at(70) == Look(40, evident=True)


def test_a_run_that_is_just_quiet_is_looked_at_less_and_less_often() -> None:
    run, looks = watched(), []
    for now in range(1, 4000):
        if run.look_at(now):
            looks.append(now)
            run.answer(now, None)
    assert looks == [31, 61, 121, 241, 481, 961, 1561, 2161, 2761, 3361, 3961]


def test_a_step_during_the_look_takes_its_answer_away() -> None:
    run = watched()
    look = run.look_at(31)
    assert look is not None
    run.at(32, Stepped(), Looked(look.since, "no task uses the CPU"))
    assert run.state.silence.text is None
    assert run.look_at(62) is not None


def test_no_look_is_needed_where_no_program_works_or_the_end_is_decided() -> None:
    joined = watched()
    joined.at(5, Reported(W0, Stage.JOINED), Reported(W1, Stage.JOINED))
    finishing = Watched(
        make_plan(task_plan(PS), task_plan(CHIEF, decides=True), task_plan(W0, decides=False))
    )
    finishing.up()
    finishing.at(5, Exited(CHIEF, 0))
    stopped = watched()
    stopped.at(5, Stop("enough"))
    restarted = watched()
    restarted.at(5, Exited(W0, -9), Exited(W1, -9))
    for run in (joined, finishing, stopped, restarted):
        run.looks.clear()
        assert run.look_at(35.5) is None
    restarted.at(40, Tick(), Started(W0, 9))
    assert restarted.look_at(69.9) is None
    assert restarted.look_at(70) == Look(40, evident=False)


def test_a_worker_that_ends_before_its_chief_counts_although_it_decides_nothing() -> None:
    run = Watched(
        make_plan(task_plan(PS), task_plan(CHIEF, decides=True), task_plan(W0, decides=False))
    )
    run.up()
    run.at(5, Exited(W0, 0))
    assert run.look_at(35) == Look(5, evident=True)
