"""A worker's side of the barrier: joining, stepping with a token, leaving."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from psclust.replication.sync.barrier_messages import Kind, Token, decode_token
from psclust.replication.sync.barrier_ops import CoordinatorOps, ParticipantOps
from psclust.replication.tf_types import Session
from psclust.replication.wire.run_order import RunOrder
from psclust.train.hooks.session_hooks import Hooks
from psclust.train.prepared_run import prepare
from psclust.train.step_runs import RunsAhead, StepRuns
from psclust.train.sync.step_watch import StepWatch
from psclust.train.sync.update_offer import UpdateOffer


@dataclass(frozen=True, slots=True)
class Grant:
    """go: compute another gradient. step: the global step reached. sure: the gradient pushed last
    is in it. late: that gradient came too late and was dropped; its batch counts as used up.
    waited_s: from when the gradient was computed until the grant was there: sending it, the other
    replicas, the update."""

    go: bool
    step: int
    sure: bool
    late: bool = False
    waited_s: float = field(default=0.0, compare=False)  # how long it took, not what was granted


class BarrierParticipant:
    """One replica in the barrier, for the life of one session; `hooks` are called around every
    gradient. chief: of the chief's own replica, with the updates that it is offered. order: with
    which to begin each step while the one before is under way, unless there are hooks, which may do
    anything between two. goes_on: whether another is to be begun."""

    def __init__(
        self,
        session: Session,
        ops: ParticipantOps,
        hooks: Hooks | None = None,
        chief: tuple[CoordinatorOps, UpdateOffer] | None = None,
        order: RunOrder | None = None,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> None:
        if hooks or order is None or not all(session.run(order.in_order)):
            order = None
        more, feeds = order.ops if order else (), [ops.incarnation, ops.round]
        if order and ops.foreseen:
            feeds.append(ops.foreseen.is_foreseen)
        self._goes_on = goes_on
        self._updates: UpdateOffer | None = None
        if chief:
            update, self._updates = chief
            self._step = StepRuns((hooks or Hooks()).callable(session, ops.step, feeds))
            with_update = prepare(session, [*update.with_step, *more], [*feeds, update.orders])
            self._ahead = (
                RunsAhead(with_update, order.number, self._following_update)
                if order
                else StepRuns(with_update)
            )
        else:
            step = (hooks or Hooks()).callable(session, [*ops.step, *more], feeds)
            self._step = self._ahead = (
                RunsAhead(step, order.number, self._following) if order else StepRuns(step)
            )
        self._in_order = order is not None
        self._send = prepare(session, [ops.send], [ops.kind, ops.incarnation, ops.round])
        self._receive = prepare(session, [ops.token])
        self._pull = prepare(session, [ops.pull]) if ops.pull is not None else None
        self._run, self._next_stamps = session.run, ops.next_stamps
        self._watch = StepWatch(session, ops.computed) if ops.computed else None
        # Whether the copies of the variables are those of the step reached.
        self._up_to_date = False
        self._incarnation = 0
        self._round = 0

    def join(self) -> Grant:
        """Waits until the chief has a place for this replica."""
        self._introduce()
        return self._grant(self._token())

    def step(self) -> tuple[Grant, float, int]:
        """Computes, pushes and reports one gradient and waits for the next token; returns (its
        grant, loss, examples)."""
        if self._pull and not self._up_to_date:
            # No variable changes before this replica has pushed its gradient.
            self._pull()
        token, loss, examples, computed, *stamps = self._step_or_update()
        too_soon = self._take_rest(stamps)
        if too_soon or token[:3] != (Kind.GO, self._incarnation, self._round + 1):
            self._ahead.drop()
        grant = self._grant(token, float(computed))
        self._up_to_date = self._up_to_date and not too_soon
        return grant, float(loss), int(examples)

    @property
    def under_way(self) -> int:
        """How many steps have been begun that `step` has not returned."""
        return self._ahead.under_way

    def leave(self) -> Grant | None:
        """Reports that this replica has ended its training, and waits until the chief confirms it.
        A new chief may not know of its end, and may have gone back to a checkpoint of before: then,
        the grant of its first round."""
        self._ahead.drop()
        if self._updates:
            self._updates.close()
        incarnation = self._incarnation
        self._send(Kind.LEAVE, self._incarnation, self._round)
        while (grant := self._grant(self._token(), any_round=True)).go:
            if self._incarnation != incarnation:
                return grant
            self._send(Kind.LEAVE, self._incarnation, self._round)
        return None

    def close(self) -> None:
        """There are no more steps, also if the last has failed."""
        self._ahead.close()
        if self._watch:
            self._watch.end()

    def _take_rest(self, stamps: Iterable[Any]) -> bool:
        """Takes the stamps that are left up to this round, after those that the step has taken.
        Returns whether there are any: the step has brought variables before their update."""
        behind = [
            tensor
            for each, tensors in zip(stamps, self._next_stamps, strict=True)
            for stamp, tensor in zip(each.tolist(), tensors, strict=True)
            if stamp < self._round
        ]
        left = behind
        while left:
            left = [
                tensor
                for tensor, stamp in zip(left, self._run(left), strict=True)
                if stamp < self._round
            ]
        return bool(behind)

    def _step_or_update(self) -> tuple[Any, ...]:
        """One gradient, and the update that follows it if that is offered: (the next token, loss,
        examples, when it was computed, and the stamps that were taken)."""
        offer = self._updates.take(self._round) if self._updates else None
        if self._updates is None or offer is None:
            token, *made = self._take(self._step)
            return decode_token(token), *made
        *made, answer = self._take(self._ahead, offer.orders)
        self._updates.answer(answer)
        if not answer[0]:
            self._ahead.drop()
        return offer.token if answer[0] else self._token(), *made

    def _following(self) -> Sequence[Any] | None:
        """Of the step after the one that is under way, if it may be begun."""
        return self._feeds(1) if self._goes_on() else None

    def _following_update(self) -> Sequence[Any] | None:
        """The same with the update that follows it, if that is offered."""
        assert self._updates is not None
        offer = self._updates.following(self._round) if self._goes_on() else None
        return None if offer is None else (*self._feeds(1), offer.orders)

    def _feeds(self, ahead: int) -> Sequence[Any]:
        """Of a step of the round that is `ahead` of this one; its token is there, or foreseen."""
        return (self._incarnation, self._round + ahead, *([ahead > 0] if self._in_order else ()))

    def _take(self, runs: StepRuns, *more: Any) -> Any:
        """The result of the step of this round, fed `more` as well."""
        if self._watch:
            self._watch.begin(self._round)
        try:
            return runs.take(*self._feeds(0), *more)
        finally:
            if self._watch:
                self._watch.done()

    def _introduce(self) -> None:
        self._incarnation = secrets.randbits(62)
        self._round = 0
        self._send(Kind.JOIN, self._incarnation, 0)

    def _token(self) -> Token:
        (token,) = self._receive()
        return decode_token(token)

    def _grant(self, token: Token, computed: float = math.inf, *, any_round: bool = False) -> Grant:
        """Receives tokens, from `token` on, until one is for this incarnation; joins a new barrier
        if one calls. computed: when the last gradient was, seconds since the epoch."""
        held = self._round
        while True:
            if token.kind is Kind.RESYNC and token.round > self._round:
                # Before the first token, the same introduction again does no harm if the chief has
                # received the first one.
                if self._round:
                    self._introduce()
                else:
                    self._send(Kind.JOIN, self._incarnation, 0)
            elif (
                token.kind is not Kind.RESYNC
                and token.incarnation == self._incarnation
                and (any_round or token.round > self._round)
            ):
                self._round = token.round
                # The round after a void one is greater by two, the first of a new barrier by any
                # number: see Barrier._void.
                late = token.kind is Kind.LATE
                self._up_to_date = token.round == held + 1
                sure = token.round == held + 1 and not late
                # The system clock may have been set meanwhile.
                return Grant(
                    late or token.kind is Kind.GO,
                    token.step,
                    sure,
                    late,
                    waited_s=max(0.0, time.time() - computed),
                )
            token = self._token()
