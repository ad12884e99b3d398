"""A worker's side of the barrier: it joins, makes a step for each token, and leaves."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from psclust.replication.prepared_run import prepare
from psclust.replication.sync.messages import Kind, Token, decode_messages, decode_token
from psclust.replication.sync.participant_ops import ParticipantOps
from psclust.replication.sync.step_watch import StepWatch
from psclust.replication.tf_types import Session


@dataclass(frozen=True, slots=True)
class SyncStep:
    """One step of a replica. token: the next. loss, examples: of its gradient; part: that they are
    from, if parts are handed out. applied: whether the update has that gradient; one that came too
    late was dropped, and its batch counts as used up.
    waited_s: the time from the gradient to the token, in which it was sent, the other replicas
    computed theirs, and the update was made."""

    token: Token
    loss: float
    examples: int
    applied: bool
    waited_s: float
    part: int = 0

    @property
    def late(self) -> bool:
        return self.token.kind is Kind.LATE


class BarrierParticipant:
    """One replica in the barrier, for the life of one session. prepared: makes the function that
    runs `ops.step`, as `prepare` does; it may call hooks around each run."""

    def __init__(
        self, session: Session, ops: ParticipantOps, prepared: Callable[..., Any] = prepare
    ) -> None:
        self._step = prepared(session, ops.step, [ops.incarnation, ops.round])
        self._send = prepare(session, [ops.send], [ops.kind, ops.incarnation, ops.round])
        self._receive = prepare(session, [ops.token])
        self._pull = prepare(session, ops.pull) if ops.pull else None
        self._watch = StepWatch(session, ops.computed) if ops.computed else None
        # Whether the copies of the variables are those of the step reached.
        self._up_to_date = False
        self._incarnation = secrets.randbits(62)
        self._round = 0

    def join(self) -> Token:
        """Tells the chief that this replica is there, and waits for its first token."""
        self._introduce()
        return self._accept(self._token())

    def step(self) -> SyncStep:
        """Computes, pushes and reports one gradient and waits for the next token."""
        if self._pull and not self._up_to_date:
            # No variable changes before this replica has pushed its gradient.
            self._pull()
        began = time.monotonic()
        token, loss, message, computed = self._watched_step()
        (sent,) = decode_messages(message)
        before = self._round
        token = self._accept(decode_token(token))
        # The round after a void one is greater by two, the first of a new barrier by any number:
        # see Barrier._void.
        self._up_to_date = self._round == before + 1
        applied = self._up_to_date and token.kind is not Kind.LATE
        # The system clock may have been set meanwhile.
        waited_s = min(max(0.0, time.time() - float(computed)), time.monotonic() - began)
        return SyncStep(token, float(loss), sent.examples, applied, waited_s, sent.part)

    def leave(self) -> Token | None:
        """Reports that this replica has ended its training, and waits until the chief confirms it.
        A new chief may not know of its end, and may have gone back to a checkpoint of before: then,
        the token of its first round."""
        incarnation = self._incarnation
        self._send(Kind.LEAVE, incarnation, self._round)
        while (token := self._accept(self._token())).go:
            if self._incarnation != incarnation:
                self._up_to_date = False
                return token
        return None

    def close(self) -> None:
        """To be called after the last step, also if that has failed."""
        if self._watch:
            self._watch.end()

    def _watched_step(self) -> Any:
        if self._watch:
            self._watch.begin(self._round)
        try:
            return self._step(self._incarnation, self._round)
        finally:
            if self._watch:
                self._watch.done()

    def _introduce(self) -> None:
        self._send(Kind.JOIN, self._incarnation, 0)

    def _token(self) -> Token:
        (token,) = self._receive()
        return decode_token(token)

    def _accept(self, token: Token) -> Token:
        """Receives tokens, from `token` on, until one is for this incarnation; joins a new barrier
        if one calls."""
        while True:
            if token.kind is Kind.RESYNC:
                if token.round > self._round:
                    # Before the first token, the same introduction again does no harm if the chief
                    # has received the first one.
                    if self._round:
                        self._incarnation, self._round = secrets.randbits(62), 0
                    self._introduce()
            elif token.incarnation == self._incarnation and (
                # The confirmation of a leave may be of the round that this replica left.
                token.round > self._round or token.kind is Kind.STOP
            ):
                self._round = token.round
                return token
            token = self._token()
