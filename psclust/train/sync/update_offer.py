"""How the chief's replica makes the foreseen update, and the stream before it, in the run of its
own step: each ps then has one run less a step, and the first one two less with a stream.

The coordinator's thread offers the update of a round; the replica, in its own thread, takes it
before its step and hands back the answer. For each round the coordinator says once whether there is
an offer, and the replica waits for that word. While a step runs, the coordinator gets the next
offer ready, which the replica takes at once if the update is made: between two steps it waits for
no other thread.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Any

from psclust.replication.sync.barrier_messages import Token


@dataclass(frozen=True)
class Offer:
    """orders: to feed, without the replica's own token, which `token` is."""

    orders: Any
    token: Token


class UpdateOffer:
    """Between the thread of the coordinator and that of replica number `worker`."""

    def __init__(self, worker: int) -> None:
        self.worker = worker
        self._changed = threading.Condition()
        self._round = 0
        self._offered = 0
        self._offer: Offer | None = None
        self._next: Offer | None = None
        self._followed = 0
        self._answers: deque[Any] = deque()
        self._closed = False

    def make(self, round_: int, offer: Offer) -> bool:
        """Offers the update of the round, unless it is offered. False: the replica makes no step
        any more, or there was to be no offer in this round."""
        with self._changed:
            if self._offered == round_:
                return True
            if self._closed or self._round >= round_:
                return False
            self._round = self._offered = round_
            self._offer = offer
            self._changed.notify_all()
            return True

    def follow(self, round_: int, offer: Offer | None) -> None:
        """Offers the update after that of the round, which is offered, for the case that this one
        is made; None: there is no such offer. If it is known what has become of the update of the
        round, offers nothing."""
        with self._changed:
            if not self._answers:
                self._next = offer
            self._followed = round_
            self._changed.notify_all()

    def following(self, round_: int) -> Offer | None:
        """The offer of the update after that of the round, which is taken, as soon as it is known
        whether there is one."""
        with self._changed:
            self._changed.wait_for(lambda: self._followed >= round_ or self._closed)
            return self._next if self._followed == round_ else None

    def is_offered(self, round_: int) -> bool:
        """Whether the update of the round is offered, or was."""
        with self._changed:
            return self._offered == round_

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether it is known within the time what has become of the offer."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._answers) or self._closed, timeout_s)

    def answered(self) -> Any:
        """Waits for the answer to the offer, `Decision.answer`, and takes it; None if the replica
        makes no step any more."""
        self.wait()
        with self._changed:
            return self._answers.popleft() if self._answers else None

    def decline(self, round_: int) -> None:
        """There is no offer in the round."""
        with self._changed:
            self._round = max(self._round, round_)
            self._changed.notify_all()

    def take(self, round_: int) -> Offer | None:
        """The offer of the round, as soon as it is known whether there is one."""
        with self._changed:
            self._changed.wait_for(lambda: self._round >= round_ or self._closed)
            return None if self._closed or self._round > round_ else self._offer

    def answer(self, answer: Any) -> None:
        """The update that was taken has been made, or not, as the answer says."""
        with self._changed:
            self._answers.append(answer)
            self._offer = None
            if answer[0] and self._next is not None:
                self._offer = self._next
                self._offered = self._round = self._round + 1
            self._next = None
            self._changed.notify_all()

    def close(self) -> None:
        """From now on nothing is offered or taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
