"""A worker's side of the barrier at work: joining, stepping with a token, leaving."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psclust.replication.sync.barrier import Kind
from psclust.replication.sync.barrier_ops import ParticipantOps
from psclust.train.hooks.session_hooks import Hooks


@dataclass(frozen=True, slots=True)
class Grant:
    """go: compute another gradient. step: the global step reached. sure: the gradient pushed last is in it. late: it came too late, was
    dropped, and its batch counts as used up."""

    go: bool
    step: int
    sure: bool
    late: bool = False


class BarrierParticipant:
    """One replica's membership of the barrier for the life of one session; `hooks` are called around every gradient."""

    def __init__(self, session: Any, ops: ParticipantOps, hooks: Hooks | None = None) -> None:
        self._step = (hooks or Hooks()).callable(session, ops.step, [ops.incarnation, ops.round])
        self._say = session.make_callable(ops.say, [ops.kind, ops.incarnation, ops.round])
        self._token = session.make_callable(ops.token)
        self._incarnation = 0
        self._round = 0

    def join(self) -> Grant:
        """Waits until the chief has a place for this replica."""
        self._introduce()
        return self._grant(self._token())

    def step(self) -> tuple[Grant, float, int]:
        """Computes, pushes and reports one gradient and waits for the next token: (that token, loss, examples)."""
        row, loss, examples = self._step(self._incarnation, self._round)
        return self._grant(row), float(loss), int(examples)

    def leave(self) -> None:
        """Says that this replica has ended, and waits until the chief knows."""
        self._say(Kind.LEAVE, self._incarnation, self._round)
        while self._grant(self._token(), any_round=True).go:
            self._say(Kind.LEAVE, self._incarnation, self._round)

    def _introduce(self) -> None:
        self._incarnation = secrets.randbits(62)
        self._round = 0
        self._say(Kind.JOIN, self._incarnation, 0)

    def _grant(self, row: Sequence[int], *, any_round: bool = False) -> Grant:
        """Reads tokens, from `row` on, until one is for this replica; joins a new barrier where one calls."""
        held = self._round
        while True:
            kind, incarnation, round_, step = Kind(int(row[0])), int(row[1]), int(row[2]), int(row[3])
            if kind is Kind.RESYNC and round_ > self._round:
                # Without a token yet, the same introduction again does no harm if the first one has been heard.
                if self._round:
                    self._introduce()
                else:
                    self._say(Kind.JOIN, self._incarnation, 0)
            elif kind is not Kind.RESYNC and incarnation == self._incarnation and (any_round or round_ > self._round):
                self._round = round_
                # A void round is followed by a number greater by two, a new barrier by any: see Barrier.repeat.
                late = kind is Kind.LATE
                return Grant(late or kind is Kind.GO, step, sure=round_ == held + 1 and not late, late=late)
            row = self._token()
