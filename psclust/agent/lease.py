"""The lease of an agent: how long it runs tasks without contact to the supervisor, and when the
supervisor counts its host as lost.

Rules over clock readings; no thread, no connection. A renewal names an end on the agent's own
clock, which the supervisor knows from the agent's replies. A renewal that is delayed on its way is
therefore worth no more than when it was sent, and the supervisor can compute a time after which the
agent runs nothing, whichever renewals arrived."""

from __future__ import annotations

import time
from dataclasses import dataclass

LOGIN_S = 5.0  # for a new log-in: added to the lease of an agent behind a tunnel
RECONNECT_S = 3.0  # after a cut, until the connection is back and a renewal has passed
_SILENT_S = 10.0


def clock() -> float:
    """Seconds; unlike time.monotonic it counts time in which the machine was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def renewal_interval_s(lease_s: float) -> float:
    return min(lease_s / 10, 1.0)


def granted_s(lease_s: float) -> float:
    """How far ahead a renewal sets the end, so that a cut of `lease_s` is survived whenever it
    begins."""
    return lease_s + renewal_interval_s(lease_s) + RECONNECT_S


def is_silent(quiet_s: float, lease_s: float) -> bool:
    """Whether an agent has been quiet for too long to wait for it."""
    return quiet_s > min(_SILENT_S, lease_s)


@dataclass
class AgentLease:
    """The agent's side: tasks may run until `until`, on the agent's clock. grace_s: between TERM
    and KILL."""

    until: float
    grace_s: float

    def renew(self, until: float) -> None:
        """A renewal that arrives out of order never shortens the lease."""
        self.until = max(self.until, until)

    def is_over(self, now: float) -> bool:
        return now > self.until

    def kill_at(self, now: float) -> float:
        """When to KILL tasks that get TERM at `now`. A grace after the lease's end, the supervisor
        may start them elsewhere."""
        return min(now, self.until) + self.grace_s


@dataclass(frozen=True, slots=True)
class _Reply:
    """A renewal sent at `sent` and answered by `received`, on the supervisor's clock, when the
    agent's showed `agent_clock`."""

    sent: float
    received: float
    agent_clock: float


class SupervisorLease:
    """The supervisor's side, for one agent that was started with a lease of `lease_s` before `now`;
    another one holds from the next renewal on. more_s: extra time to reconnect. Times are the
    supervisor's unless stated otherwise."""

    def __init__(self, lease_s: float, now: float, more_s: float = 0.0) -> None:
        self.lease_s = lease_s
        self._more_s = more_s
        self._began = now
        self._reply: _Reply | None = None
        self._unanswered: float | None = None
        self._over = now + granted_s(lease_s)

    @property
    def contact(self) -> float:
        """When the last renewal that was answered had been sent."""
        return self._reply.sent if self._reply else self._began

    def renewal(self, now: float) -> float:
        """The end, on the agent's clock, that a renewal sent now must name; 0 while that clock is
        unknown. It stays the same until a reply comes: an agent whose replies are lost must end its
        tasks too."""
        if self._reply is None:
            return 0.0
        if self._unanswered is None:
            ahead = granted_s(self.lease_s) + self._more_s
            self._unanswered = self._reply.agent_clock + (now - self._reply.sent) + ahead
            self._over = max(self._over, now + ahead + (self._reply.received - self._reply.sent))
        return self._unanswered

    def answered(self, sent: float, received: float, agent_clock: float) -> None:
        self._reply, self._unanswered = _Reply(sent, received, agent_clock), None

    def is_over(self, now: float) -> bool:
        """Whether the lease has ended on the agent, whichever renewals it received: it is ending
        its tasks."""
        return now > self._over

    def left_s(self, now: float) -> float:
        """Until it is over; 0 afterwards."""
        return max(0.0, self._over - now)


@dataclass(frozen=True, slots=True)
class Loss:
    """Why a host is lost. all_hosts: the cause is the supervisor, so every host is."""

    reason: str
    all_hosts: bool = False


def find_loss(
    lease_s: float, unanswered_s: float, suspended_s: float, *, over: bool, stopping: str | None
) -> Loss | None:
    """Whether a host is lost whose agent has not renewed its lease for `unanswered_s`. suspended_s:
    the part in which the supervisor itself did not run. over: `SupervisorLease.is_over`. stopping:
    the agent's reason to stop, None while it does not."""
    if stopping is None and not over:
        return None
    if suspended_s >= lease_s:
        found = (
            f"the supervisor was suspended for {suspended_s:.0f} s (its machine "
            "slept, or it was stopped)"
        )
        remedy = (
            "Keep the machine awake, raise `deadlines.lease`, or detach with `up -d`, "
            "for which `deadlines.detached` holds"
        )
        return Loss(
            f"{found}, and without contact for {lease_s:g} s agents end their tasks. {remedy}",
            all_hosts=True,
        )
    return Loss(
        f"its agent has stopped: {stopping}"
        if stopping is not None
        else f"its agent has not answered for {unanswered_s:.0f} s"
    )
