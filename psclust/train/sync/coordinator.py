"""The chief's side of the barrier: a thread that receives messages and carries out the barrier's
actions.

It also writes the checkpoints, between two updates, so that each is a consistent set of variables.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from psclust.replication.sync.backups import BackupBarrier
from psclust.replication.sync.barrier import Barrier, Foreseen
from psclust.replication.sync.barrier_actions import (
    Action,
    Clear,
    Collect,
    CountGradients,
    Discard,
    DropMessages,
    Fill,
    Left,
    Release,
    Reset,
    RollBack,
    Send,
    Stream,
    Warn,
)
from psclust.replication.sync.barrier_messages import (
    Kind,
    Message,
    Update,
    decode_messages,
    encode_tokens,
    encode_update,
)
from psclust.replication.sync.barrier_ops import CoordinatorOps
from psclust.replication.sync.streaming import StreamingBarrier
from psclust.replication.tf_types import Session
from psclust.train.prepared_run import prepare
from psclust.train.session import close
from psclust.train.sync.accumulator_group import AccumulatorGroup
from psclust.train.sync.stream_run import StreamRun, other_round
from psclust.train.sync.update_offer import Offer, UpdateOffer

LOG = logging.getLogger(__name__)

# Each taking from an accumulator adds one to its number, and replicas released from old rounds
# take. The margin keeps them from closing the accumulators of an all-reduce to the current round.
_MARGIN = 100

# How often it looks whether a step that is a stream as well waits for something else than what was
# foreseen.
_LOOK_S = 0.1


def new_barrier(
    ops: CoordinatorOps,
    step: int,
    *,
    ended: Collection[int] = (),
    max_steps: int | None = None,
    fresh: bool = False,
) -> Barrier:
    """The barrier from global step `step` on. fresh: the variables are new, so there was no earlier
    barrier."""
    # Microseconds since 1970: greater than every round of an earlier barrier, which advanced by one
    # or two a step.
    first_round = time.time_ns() // 1000
    options: dict[str, Any] = {"step": step, "ended": ended, "max_steps": max_steps}
    if ops.backups:
        return BackupBarrier(ops.workers, first_round, ops.backups.needed, **options)
    if ops.stream:
        return StreamingBarrier(ops.workers, first_round, **options)
    return Barrier(
        ops.workers, first_round, **options, all_reduce=ops.all_reduce is not None, fresh=fresh
    )


class BarrierCoordinator:
    """Runs `barrier` in `session`, in a thread of its own.

    left(worker): called when a worker has left, before it gets its STOP token. updated(step):
    called after an update, while nothing writes to the variables, if it is due(step) at the latest
    when the update begins. dropped(worker): called when a gradient came too late.
    offer: to the chief's own replica, which then makes updates that are foreseen.
    """

    def __init__(
        self,
        session: Session,
        ops: CoordinatorOps,
        barrier: Barrier,
        *,
        left: Callable[[int], None],
        updated: Callable[[int], None],
        offer: UpdateOffer,
        due: Callable[[int], bool] = lambda step: True,
        dropped: Callable[[int], None] = lambda worker: None,
    ) -> None:
        self._session = session
        self._ops = ops
        self._barrier = barrier
        self._left = left
        self._updated = updated
        self._due = due
        self._dropped = dropped
        self._offer = offer
        if not barrier.foresees:
            offer.close()
        # Messages that came with an update.
        self._inbox: list[Message] = []
        # A step is one of these two calls.
        self._update = prepare(session, ops.update, [ops.order])
        self._foreseen = prepare(session, ops.foreseen, [ops.order])
        # The update of the round, if it is already made.
        self._made: Foreseen | None = None
        # What is foreseen of the next round, if its update is offered as soon as that of this one
        # is made.
        self._following: Foreseen | None = None
        self._sums = AccumulatorGroup(session, ops.sums)
        self._stream = StreamRun(session, ops.stream, self._fail) if ops.stream else None
        self._own = (
            [AccumulatorGroup(session, own) for own in ops.backups.own] if ops.backups else []
        )
        self._thread = threading.Thread(target=self._run, name="barrier", daemon=True)
        self.error: Exception | None = None

    @property
    def awaited(self) -> Collection[int]:
        """The workers that the round waits for."""
        return self._barrier.awaited

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Makes no further step. To be called before `start` or from `left`."""
        self._barrier.stop()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether the barrier has ended, or failed, within the time."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        barrier = self._barrier
        try:
            if self._stream:
                self._stream.begin()
            self._do(barrier.open())
            while not barrier.ended:
                while barrier.awaited:
                    for message in self._next_messages():
                        self._do(barrier.receive(message))
                    self._do(barrier.unblock())
                self._do(barrier.close_round())
        except Exception as error:  # noqa: BLE001 - handed to the main thread
            self._fail(error)
        finally:
            self._offer.close()

    def _fail(self, error: Exception) -> None:
        # The first error is the cause of the others.
        self.error = self.error or error
        # Another thread may be waiting in the session, the chief's own replica for a token; closing
        # the session wakes it.
        close(self._session)

    def _next_messages(self) -> list[Message]:
        """Messages of awaited workers, one at least. If they are those foreseen, the update of the
        round is made."""
        if self._inbox:
            found, self._inbox = self._inbox, []
            return found
        foreseen, is_offered = self._offered()
        if foreseen is not None and is_offered:
            self._offer.follow(self._barrier.round, self._offer_after(foreseen))
            received = self._messages_of_step(foreseen)
            if received is not None:
                return received
        self._offer.decline(self._barrier.round)
        if self._stream:
            self._stream.start()
        if foreseen is None:
            return decode_messages(
                self._session.run(self._ops.receive, {self._ops.count: self._barrier.wanted})
            )
        (answer,) = self._foreseen(
            encode_update(foreseen.update, self._ops.workers, foreseen.messages)
        )
        if answer[0]:
            self._made = foreseen
        return decode_messages(answer[1:])

    def _offered(self) -> tuple[Foreseen | None, bool]:
        """(what is foreseen of the round; whether its update is offered to the chief's own
        replica)."""
        following, self._following = self._following, None
        if (
            following is not None
            and following.round == self._barrier.round
            and self._offer.is_offered(following.round)
        ):
            return following, True
        foreseen = self._barrier.foreseen()
        offer = (
            None
            if foreseen is None
            else self._offer_for(foreseen, self._stream.order if self._stream else [])
        )
        return foreseen, offer is not None and self._offer.make(self._barrier.round, offer)

    def _offer_for(self, foreseen: Foreseen, stream: Sequence[int]) -> Offer | None:
        """The offer of an update to the chief's own replica; None if that does not take part.
        stream: the order of its stream."""
        token = foreseen.update.tokens.get(self._offer.worker)
        if token is None:
            return None
        order = encode_update(
            foreseen.update, self._ops.workers, foreseen.messages, without=self._offer.worker
        )
        return Offer(np.concatenate([np.array(stream, np.int64), order]), token)

    def _offer_after(self, foreseen: Foreseen) -> Offer | None:
        """The offer of the update after the one foreseen, if between the two there is nothing to
        do."""
        if self._due(foreseen.update.step):
            return None
        following = foreseen.later.foreseen()
        stream: list[int] | None = []
        for action in foreseen.actions:
            if isinstance(action, Stream) and self._stream:
                stream = self._stream.order_of(action)
            elif not isinstance(action, Update):
                return None
        if following is None or stream is None or following.round != self._barrier.round + 1:
            return None
        self._following = following
        return self._offer_for(following, stream)

    def _messages_of_step(self, foreseen: Foreseen) -> list[Message] | None:
        """The messages of the round, received by the step of the chief's own replica that was to
        make the update. None: there is no such step any more."""
        while self._stream and not self._offer.wait(_LOOK_S):
            if messages := self._unforeseen():
                # The step ends with its stream, which may need gradients of zero before.
                self._stream.await_step(lambda: self._offer.answered() is not None)
                return messages
        answer = self._offer.answered()
        if answer is None:
            return None
        if self._stream:
            self._stream.made()
        if answer[0]:
            self._made = foreseen
        return decode_messages(answer[1:]) if answer[0] or not self._stream else self._unforeseen()

    def _unforeseen(self) -> list[Message]:
        messages = decode_messages(self._session.run(self._ops.unforeseen))
        if any(message.kind is Kind.STRAY for message in messages):
            raise other_round()
        return messages

    def _make(self, update: Update) -> None:
        if self._stream:
            self._stream.finish()
        made, self._made = self._made, None
        if made is None:
            (received,) = self._update(encode_update(update, self._ops.workers))
            self._inbox = decode_messages(received)
        elif not made.was(update):
            raise AssertionError(
                f"the update made, {made.update}, is not the one to make, {update}"
            )
        # If the next is being made already, it was not due.
        if not self._offer.is_offered(self._barrier.round):
            self._updated(update.step)

    def _do(self, actions: Iterable[Action]) -> None:
        ops, run = self._ops, self._session.run
        for action in actions:
            match action:
                case Send(tokens):
                    if tokens:
                        run(ops.send, {ops.tokens: encode_tokens(tokens, ops.workers)})
                case Update():
                    self._make(action)
                case CountGradients(expected):
                    self._do(
                        self._barrier.counted(
                            all(count == expected for count in self._sums.counts())
                        )
                    )
                case Left(worker):
                    self._left(worker)
                case Reset(round_, blocked):
                    self._reset(round_, blocked=blocked)
                case Release(round_):
                    assert ops.all_reduce is not None
                    run(ops.all_reduce.release, {ops.round: round_})
                case DropMessages():
                    if ops.stream:
                        run(ops.unforeseen)
                    if count := run(ops.pending):
                        run(ops.receive, {ops.count: count})
                case Warn(text):
                    LOG.warning("%s", text)
                case Collect(worker, round_):
                    assert ops.backups is not None
                    run(ops.backups.collect[worker], {ops.round: round_})
                case Discard(worker):
                    assert ops.backups is not None
                    run(ops.backups.discard[worker])
                    self._dropped(worker)
                case Clear(worker, round_):
                    self._own[worker].reset(round_)
                case Stream() | Fill() | RollBack():
                    assert self._stream is not None
                    self._stream.do(action)

    def _reset(self, round_: int, *, blocked: bool) -> None:
        self._sums.reset(round_)
        if self._ops.all_reduce is None:
            return
        all_reduce = AccumulatorGroup(self._session, self._ops.all_reduce.accumulators)
        if blocked:
            all_reduce.close(round_ - _MARGIN)
        else:
            all_reduce.reset(round_)
