"""The chief's side of the barrier at work: one thread that collects messages, applies means and hands out tokens.

It also writes the checkpoints, between the update of one step and the next, so that each is a consistent set of variables.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from psclust.replication.sync.backups import BackupBarrier
from psclust.replication.sync.barrier import Barrier, Kind, Message, Token
from psclust.replication.sync.barrier_ops import CoordinatorOps, orders_of
from psclust.train.session import close
from psclust.train.sync.own_gradients import OwnGradients

LOG = logging.getLogger(__name__)

# An accumulator counts its own number up whenever somebody takes from it. Who is let go from an old round must not close it to the new one.
_SLACK = 100


class BarrierCoordinator:
    """Drives the barrier of `workers` replicas in `session`, in a thread of its own, from global step `step` on.

    finished: replicas that had ended before. enough(step): whether training stops at that step. left(replica): called when a replica has
    ended, before it hears so. updated(step): called after every update, while nobody writes to the variables. dropped(replica): called when
    a gradient came too late. fresh: the variables are new, so no earlier driver can have left anybody waiting in an all-reduce.
    """

    def __init__(
        self,
        session: Any,
        ops: CoordinatorOps,
        workers: int,
        step: int,
        *,
        finished: Collection[int],
        enough: Callable[[int], bool],
        left: Callable[[int], None],
        updated: Callable[[int], None],
        dropped: Callable[[int], None] = lambda replica: None,
        fresh: bool = False,
    ) -> None:
        self._session = session
        self._ops = ops
        self._workers = workers
        self._step = step
        self._enough = enough
        self._left = left
        self._updated = updated
        self._dropped = dropped
        # Batches of dropped gradients, which count as used up with the next update.
        self._used_up = np.zeros([workers], np.int64)
        # Messages that came with an update and are still to be heard.
        self._inbox: list[Message] = []
        # What every step is made of is one run. `updated` hears of it when the next messages are there.
        self._update = session.make_callable(ops.update, [ops.orders])
        self._own = OwnGradients(session, ops.backups) if ops.backups else None
        # Microseconds since 1970: greater than every round of an earlier driver, which advanced by one or two a step.
        remaining, first = set(range(workers)) - set(finished), time.time_ns() // 1000
        self._barrier = BackupBarrier(remaining, first, ops.backups.needed) if ops.backups else Barrier(remaining, first)
        self._barrier.stopping = enough(step)
        # An all-reduce may hold workers in the middle of their step; to let them go spoils the round for all.
        self._spoilt = ops.release_all_reduce is not None and not fresh
        self._thread = threading.Thread(target=self._run, name="barrier", daemon=True)
        self.error: Exception | None = None

    @property
    def awaited(self) -> Collection[int]:
        """The replicas that the round waits for."""
        return self._barrier.awaited

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No further step is made. To be called before `start` or from `left`."""
        self._barrier.stopping = True

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether the barrier has ended, or failed, within the time."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._open()
            while not self._barrier.ended:
                self._round()
        except Exception as error:  # noqa: BLE001 - handed to the main thread
            self.error = error
            # The chief's own replica may be waiting for a token that will never come; closing the session wakes it.
            close(self._session)

    def _open(self) -> None:
        """Shuts out everything an earlier barrier left behind and calls everybody in."""
        ops = self._ops
        self._empty_accumulators(slack=_SLACK if self._spoilt else 0)
        if self._own is not None:
            for worker in range(self._workers):
                self._own.clear(worker, self._barrier.round)
        self._receive(self._session.run(ops.pending))
        if self._spoilt:
            self._session.run(ops.release_all_reduce, {ops.round: self._barrier.round})
        self._send([Token(worker, Kind.RESYNC, 0, self._barrier.round) for worker in range(self._workers)])

    def _empty_accumulators(self, slack: int = 0) -> None:
        """Leaves every accumulator empty and closed to all gradients before the barrier's round; with `slack`, an all-reduce only closed to
        what is older by that much."""
        ops, round_ = self._ops, self._barrier.round
        # In two steps, because emptying an accumulator advances its number by one, and gradients must be refused before it is emptied.
        self._open_at(round_ - 1, slack)
        counts, reduced = self._session.run([ops.counts, ops.all_reduce_counts])
        # While somebody waits in an all-reduce, whoever else takes from it waits behind.
        reduced = [0 for _ in reduced] if slack else reduced
        full = [op for op, count in zip([*ops.discard, *ops.discard_all_reduce], [*counts, *reduced], strict=True) if count]
        self._session.run(full)
        self._open_at(round_, slack)

    def _open_at(self, round_: int, slack: int) -> None:
        self._session.run(self._ops.open, {self._ops.round: round_})
        if self._ops.open_all_reduce is not None:
            self._session.run(self._ops.open_all_reduce, {self._ops.round: round_ - slack})

    def _receive(self, count: int) -> list[Message]:
        """All messages that are waiting, or the next `count` where those are more."""
        if self._inbox:
            found, self._inbox = self._inbox, []
            return found
        if not count:
            return []
        return _messages(self._session.run(self._ops.receive, {self._ops.count: count}))

    def _wanted(self) -> int:
        """How many messages to wait for at a time. Who waits in an all-reduce sends nothing before a lost worker's successor is heard,
        so that one is heard by itself; and a step with backup workers may need fewer messages than workers."""
        singly = self._ops.release_all_reduce is not None or self._own is not None
        return min(1, len(self._barrier.awaited)) if singly else len(self._barrier.awaited)

    def _send(self, tokens: Iterable[Token]) -> None:
        tokens = list(tokens)
        if tokens:
            self._session.run(self._ops.send, {self._ops.rows: self._rows(tokens), self._ops.step: self._step})

    def _rows(self, tokens: Sequence[Token]) -> Any:
        rows = np.full([self._workers, 3], -1, np.int64)
        for token in tokens:
            rows[token.worker] = (token.kind, token.incarnation, token.round)
        return rows

    def _round(self) -> None:
        barrier = self._barrier
        while barrier.awaited:
            # With backup workers, a gradient that has arrived before the step is made counts too: it is no cheaper to drop it.
            for message in self._receive(self._wanted()):
                self._hear(message)
            if barrier.unsure:
                self._release()
        if barrier.unsure or (self._spoilt and barrier.contributions):
            self._settle()
        elif barrier.contributions and barrier.stopping:
            # Somebody asked to stop while others were at work on this step, which is never made.
            self._void()
        elif barrier.contributions:
            self._apply()

    def _hear(self, message: Message) -> None:
        delivered, round_ = message.worker in self._barrier.contributions, self._barrier.round
        tokens = self._barrier.receive(message)
        if message.kind is Kind.LEAVE and tokens:
            self._left(message.worker)
            self._release()
        if self._own is not None:
            if self._barrier.round != round_:
                # A worker that had been lost is back. It begins where the data is used up to, as far as the variables know.
                self._own.clear(message.worker, self._barrier.round)
                self._used_up[message.worker] = 0
            elif message.kind is Kind.GRADIENT and tokens:
                self._own.discard(message.worker)
                self._used_up[message.worker] += 1
                self._dropped(message.worker)
            elif not delivered and message.worker in self._barrier.contributions:
                self._own.collect(message.worker, round_)
        self._send(tokens)

    def _release(self) -> None:
        """Lets go whoever waits in an all-reduce for what a lost worker, or one that has left, did not say. The round will not count."""
        if self._ops.release_all_reduce is not None and not self._spoilt and self._barrier.awaited:
            self._spoilt = True
            self._session.run(self._ops.release_all_reduce, {self._ops.round: self._barrier.round})

    def _settle(self) -> None:
        """Somebody came back in the middle of a round; looks whether a part of a gradient of its former self is in the sums."""
        delivered = len(self._barrier.contributions)
        counts = self._session.run(self._ops.counts)
        if (counts == delivered).all() and not self._spoilt:
            self._send(self._barrier.clear())
            return
        if self._barrier.unsure:
            LOG.warning("a worker died in the middle of step %d; the step is computed again", self._step + 1)
        self._void()

    def _void(self) -> None:
        self._spoilt = False
        tokens = self._barrier.repeat()
        self._empty_accumulators()
        self._send(tokens)

    def _apply(self) -> None:
        contributions = self._barrier.contributions
        batches = np.zeros([self._workers], np.int64)
        batches[[worker for worker, examples in contributions.items() if examples]] = 1
        if not batches.any():
            # Replicas that wait for each other end together: all data has ended.
            self._barrier.stopping = True
            self._empty_accumulators()
            self._send(self._barrier.advance())
            return
        self._barrier.stopping = self._enough(self._step + 1)
        tokens = self._barrier.advance()
        batches, self._used_up = batches + self._used_up, np.zeros_like(batches)
        *received, step = self._update(orders_of(sum(contributions.values()), self._wanted(), batches, self._rows(tokens)))
        self._inbox, self._step = _messages(np.reshape(received, [-1, len(fields(Message))])), int(step)
        self._updated(self._step)


def _messages(rows: Any) -> list[Message]:
    return [Message(Kind(int(row[0])), *(int(value) for value in row[1:])) for row in rows]
