"""The lease: when an agent ends its tasks, and when the supervisor counts the host as lost, each on
its own clock."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from psclust.agent.lease import (
    RECONNECT_S,
    AgentLease,
    Loss,
    SupervisorLease,
    find_loss,
    granted_s,
    is_silent,
    renewal_interval_s,
)
from psclust.control.suspend_detector import SuspendDetector

SKEW = 5000.0  # by which the agent's clock is ahead
GRACE = 2.0
TICK = 0.05


@dataclass
class Line:
    """Renewals between the two, `way` seconds each way, none while it is cut. A message into a cut
    arrives `RECONNECT_S` after its end."""

    lease_s: float
    began: float = 1e9  # of the cut
    ended: float = 1e9
    way: float = 0.01
    hears: bool = False  # in a cut the agent still hears, and only its answers are lost

    def arrives(self, sent: float) -> float:
        return (
            self.ended + RECONNECT_S - TICK if self.began <= sent < self.ended else sent + self.way
        )

    def play(self, until: float) -> tuple[float | None, float | None]:
        """When the agent gave up its tasks, and when it was given up; None: not before `until`."""
        supervisor, agent = (
            SupervisorLease(self.lease_s, 0.0),
            AgentLease(granted_s(self.lease_s) + SKEW, GRACE),
        )
        now, due, waiting = 0.0, 0.0, []
        given_up = None
        while now < until:
            if now >= due:
                end = supervisor.renewal(now)
                there = now + self.way if self.hears else self.arrives(now)
                waiting.append((there, self.arrives(there), now, end))
                due = now + renewal_interval_s(self.lease_s)
            for message in [entry for entry in waiting if entry[0] <= now]:
                there, back, sent, end = message
                if end is not None:
                    agent.renew(end)
                    waiting[waiting.index(message)] = (there, back, sent, None)
                if back <= now:
                    supervisor.answered(sent, now, there + SKEW)
                    waiting = [entry for entry in waiting if entry[2] != sent]
            if agent.is_over(now + SKEW):
                return now, self._given_up(supervisor, now)
            if supervisor.is_over(now):
                given_up = now
                break
            now += TICK
        return None, given_up

    def _given_up(self, supervisor: SupervisorLease, now: float) -> float:
        while not supervisor.is_over(now):
            supervisor.renewal(now)
            now += TICK
        return now


@pytest.mark.parametrize("lease_s", [3, 5, 30, 86400])
@pytest.mark.parametrize("offset", [0.0, 0.3, 0.9, 0.99])
def test_a_cut_as_long_as_the_lease_is_survived_whenever_it_begins(
    lease_s: float, offset: float
) -> None:
    began = 10 + offset * renewal_interval_s(lease_s)
    if lease_s < 100:
        assert Line(lease_s, began, began + lease_s - TICK).play(10 + 3 * lease_s + 20) == (
            None,
            None,
        )
    assert granted_s(lease_s) - renewal_interval_s(lease_s) - RECONNECT_S >= lease_s


@pytest.mark.parametrize("hears", [False, True])
@pytest.mark.parametrize("lease_s", [3, 5, 30])
def test_no_host_is_given_up_before_its_agent_has_given_up_and_soon_after(
    lease_s: float, hears: bool
) -> None:
    for seed in range(20):
        chance = random.Random(seed)
        began = 10 + chance.random() * 5
        line = Line(lease_s, began, 1e9, way=chance.choice([0.001, 0.1, 0.9]), hears=hears)
        ended, given_up = line.play(1000)
        assert ended is not None
        assert given_up is not None
        assert began + lease_s <= ended + line.way
        assert ended <= given_up + TICK
        assert (
            given_up
            <= began
            + lease_s
            + 2 * renewal_interval_s(lease_s)
            + RECONNECT_S
            + 4 * line.way
            + 3 * TICK
        )


def test_a_grant_that_was_held_up_is_worth_no_more_than_when_it_was_sent() -> None:
    agent = AgentLease(until=100.0, grace_s=GRACE)
    supervisor = SupervisorLease(5, now=0.0)
    supervisor.answered(sent=0.0, received=0.2, agent_clock=92.0)
    end = supervisor.renewal(now=2.0)
    assert end == 94 + granted_s(5)
    for now in (110.0, 94 + granted_s(5) + 0.1):
        agent.renew(end)
        assert agent.is_over(now)
    assert agent.kill_at(now=end + 99) == end + GRACE


def test_an_early_grant_that_arrives_after_a_later_one_takes_nothing_back() -> None:
    agent = AgentLease(until=100.0, grace_s=GRACE)
    agent.renew(120)
    agent.renew(110)
    agent.renew(0)
    assert not agent.is_over(119.9)


def test_before_the_agents_clock_is_known_only_the_clock_is_asked_for() -> None:
    supervisor = SupervisorLease(5, now=0.0)
    assert supervisor.renewal(1.0) == 0
    assert not supervisor.is_over(granted_s(5))
    assert supervisor.is_over(granted_s(5) + 0.1)


def test_what_is_granted_without_an_answer_stays_the_same_until_there_is_one() -> None:
    supervisor = SupervisorLease(5, now=0.0)
    supervisor.answered(0.0, 0.0, 50.0)
    first = supervisor.renewal(1.0)
    assert [supervisor.renewal(now) for now in (2.0, 9.0)] == [first, first]
    supervisor.answered(9.0, 9.1, 59.0)
    assert supervisor.renewal(9.5) == 59.5 + granted_s(5)
    supervisor.lease_s = 3600
    supervisor.answered(9.5, 9.6, 59.5)
    assert supervisor.renewal(10.0) == 60 + granted_s(3600)
    assert not supervisor.is_over(3600)


@pytest.mark.parametrize(("now", "kill_at"), [(90.0, 92.0), (100.0, 102.0), (150.0, 102.0)])
def test_tasks_are_killed_after_the_grace_but_never_later_than_the_lease_and_the_grace(
    now: float, kill_at: float
) -> None:
    assert AgentLease(until=100.0, grace_s=GRACE).kill_at(now) == kill_at


@pytest.mark.parametrize(
    ("unanswered_s", "suspended_s", "over", "stopping", "loss"),
    [
        (1.0, 0.0, False, None, None),
        (29.0, 29.0, False, None, None),
        (41.0, 0.0, True, None, Loss("its agent has not answered for 41 s")),
        (41.0, 29.0, True, None, Loss("its agent has not answered for 41 s")),
        (0.2, 0.0, False, "it got SIGTERM", Loss("its agent has stopped: it got SIGTERM")),
        (41.0, 0.0, True, "it got SIGTERM", Loss("its agent has stopped: it got SIGTERM")),
    ],
)
def test_a_host_is_lost_when_its_agent_stops_or_its_lease_is_over(
    unanswered_s: float, suspended_s: float, over: bool, stopping: str | None, loss: Loss | None
) -> None:
    assert find_loss(30.0, unanswered_s, suspended_s, over=over, stopping=stopping) == loss


@pytest.mark.parametrize("stopping", [None, "the supervisor has not renewed its lease"])
def test_all_hosts_are_lost_when_the_supervisor_was_suspended_for_the_lease(
    stopping: str | None,
) -> None:
    loss = find_loss(30.0, 60.0, 59.0, over=True, stopping=stopping)
    assert loss is not None
    assert loss.all_hosts
    assert loss.reason.startswith(
        "the supervisor was suspended for 59 s (its machine slept, or it was stopped), "
        "and without contact for 30 s"
    )


@pytest.mark.parametrize(
    ("quiet_s", "lease_s", "silent"),
    [(4.0, 5.0, False), (6.0, 5.0, True), (9.0, 30.0, False), (11.0, 30.0, True)],
)
def test_an_agent_is_silent_after_its_lease_or_ten_seconds(
    quiet_s: float, lease_s: float, silent: bool
) -> None:
    assert is_silent(quiet_s, lease_s) == silent


@pytest.mark.parametrize(
    ("looks", "since", "now", "suspended_s"),
    [
        ([0.5, 1.0, 1.9], 0.0, 2.4, 0.0),
        ([0.5, 30.5], 0.0, 31.0, 30.0),
        ([0.5, 30.5], 20.5, 31.0, 10.0),
        ([0.5, 30.5], 30.6, 31.0, 0.0),
        ([0.5], 0.0, 60.5, 60.0),  # nobody has looked since
        ([0.5, 10.5, 11.0, 21.0], 0.0, 21.5, 20.0),
    ],
)
def test_the_time_in_which_nobody_looked_at_the_clock_was_slept(
    looks: list[float], since: float, now: float, suspended_s: float
) -> None:
    detector = SuspendDetector(0.0)
    for look in looks:
        detector.sample(look)
    assert detector.suspended_s(since, now) == pytest.approx(suspended_s)
