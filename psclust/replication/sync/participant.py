"""A worker's side of the barrier: it joins, makes a step for each token, and leaves."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from psclust.replication.prepared_run import prepare
from psclust.replication.sync.messages import Kind, Token, decode_token
from psclust.replication.sync.participant_ops import ParticipantOps
from psclust.replication.sync.step_watch import StepWatch
from psclust.replication.tf_types import Session


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token says to the worker. go: compute another gradient. step: the global step reached.
    sure: that step has the gradient pushed last. late: that gradient came too late and was dropped;
    its batch counts as used up. waited_s: the time from the gradient to this grant, in which it was
    sent, the other replicas computed theirs, and the update was made."""

    go: bool
    step: int
    sure: bool
    late: bool = False
    waited_s: float = field(default=0.0, compare=False)  # how long it took, not what was granted


class BarrierParticipant:
    """One replica in the barrier, for the life of one session. prepared: makes the function that
    runs `ops.step`, as `prepare` does; it may call hooks around each run."""

    def __init__(
        self, session: Session, ops: ParticipantOps, prepared: Callable[..., Any] = prepare
    ) -> None:
        self._step = prepared(session, ops.step, [ops.incarnation, ops.round])
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
        """Tells the chief that this replica is there, and waits for its first token."""
        self._introduce()
        return self._grant(self._token())

    def step(self) -> tuple[Grant, float, int]:
        """Computes, pushes and reports one gradient and waits for the next token; returns (its
        grant, loss, examples)."""
        if self._pull and not self._up_to_date:
            # No variable changes before this replica has pushed its gradient.
            self._pull()
        token, loss, examples, computed, *stamps = self._watched_step()
        too_soon = self._take_rest(stamps)
        grant = self._grant(decode_token(token), float(computed))
        self._up_to_date = self._up_to_date and not too_soon
        return grant, float(loss), int(examples)

    def leave(self) -> Grant | None:
        """Reports that this replica has ended its training, and waits until the chief confirms it.
        A new chief may not know of its end, and may have gone back to a checkpoint of before: then,
        the grant of its first round."""
        incarnation = self._incarnation
        self._send(Kind.LEAVE, self._incarnation, self._round)
        while (grant := self._grant(self._token(), any_round=True)).go:
            if self._incarnation != incarnation:
                return grant
            self._send(Kind.LEAVE, self._incarnation, self._round)
        return None

    def close(self) -> None:
        """To be called after the last step, also if that has failed."""
        if self._watch:
            self._watch.end()

    def _take_rest(self, stamps: Iterable[Any]) -> bool:
        """Where the step has taken a stamp of an older round, takes those after it, up to that of
        this round. Returns whether there were any: then the step has read variables before their
        update."""
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

    def _watched_step(self) -> Any:
        if self._watch:
            self._watch.begin(self._round)
        try:
            return self._step(self._incarnation, self._round)
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
