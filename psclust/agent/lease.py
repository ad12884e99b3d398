"""How long an agent may go on without a word from its launcher: rules of clock readings and messages, no clock and no connection.

Every grant names an end on the agent's own clock, which the launcher knows from the agent's answers. A grant that was held up on its way
is therefore worth no more than it was when it was sent, and the launcher knows a time after which no agent goes on, whichever of its
messages arrived."""

from __future__ import annotations

import time
from dataclasses import dataclass

LOG_IN_S = 5.0  # more, where the connection leads through SSH
RECONNECT_S = 3.0  # for a connection to be there again, and a renewal to get through it, once a cut is over


def clock() -> float:
    """Seconds; unlike time.monotonic it counts the time in which the machine was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def interval(lease_s: float) -> float:
    """Between two renewals."""
    return min(lease_s / 10, 2.0)


def patience(lease_s: float) -> float:
    """For how long an agent goes on after a renewal, such that a cut of `lease_s` seconds is survived whenever it begins."""
    return lease_s + interval(lease_s) + RECONNECT_S


@dataclass
class AgentLease:
    """The agent's side: its tasks may run until `until`, on its own clock. grace_s: between TERM and KILL."""

    until: float
    grace_s: float

    def renew(self, until: float) -> None:
        """An earlier grant that arrives late takes nothing back."""
        self.until = max(self.until, until)

    def is_over(self, now: float) -> bool:
        return now > self.until

    @property
    def kill_at(self) -> float:
        """Later the launcher may have started its tasks elsewhere."""
        return self.until + self.grace_s


@dataclass(frozen=True, slots=True)
class _Answer:
    """A renewal was sent at `sent` and answered by `heard`, launcher's clock; in between the agent's clock showed `theirs`."""

    sent: float
    heard: float
    theirs: float


class LauncherLease:
    """The launcher's side, for one agent that was started with a lease of `lease_s` before `now`. more_s: for it to be reached again after
    a cut, beyond what is usual. Times are the launcher's, where not said otherwise."""

    def __init__(self, lease_s: float, now: float, more_s: float = 0.0) -> None:
        self._lease_s = lease_s
        self._more_s = more_s
        self._began = now
        self._answer: _Answer | None = None
        self._open: float | None = None
        self._over = now + patience(lease_s)

    @property
    def lease_s(self) -> float:
        return self._lease_s

    @property
    def contact(self) -> float:
        """When the last renewal that was answered had been sent."""
        return self._answer.sent if self._answer else self._began

    def extend(self, lease_s: float) -> None:
        """From the next grant on."""
        self._lease_s = lease_s

    def grant(self, now: float) -> float:
        """The end, on the agent's clock, that a renewal sent now should name; 0 while that clock is unknown. As long as no answer comes
        it stays the same: an agent that hears but is not heard must end its tasks, too."""
        if self._answer is None:
            return 0.0
        if self._open is None:
            ahead = patience(self._lease_s) + self._more_s
            self._open = self._answer.theirs + (now - self._answer.sent) + ahead
            self._over = max(self._over, now + ahead + (self._answer.heard - self._answer.sent))
        return self._open

    def answered(self, sent: float, heard: float, theirs: float) -> None:
        self._answer, self._open = _Answer(sent, heard, theirs), None

    def is_over(self, now: float) -> bool:
        """Whether no agent can be going on with any of the grants: its tasks have been told to end."""
        return now > self._over
