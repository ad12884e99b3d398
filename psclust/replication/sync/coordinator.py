"""The chief's side of the barrier: a thread that receives messages and carries out the barrier's
actions.

It also writes the checkpoints, between two updates, so that each is a consistent set of variables.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable
from typing import Any

from psclust.replication.close_session import close
from psclust.replication.prepared_run import prepare
from psclust.replication.sync.actions import (
    Action,
    Clear,
    Collect,
    Discard,
    Fill,
    Left,
    Release,
    Reset,
    RollBack,
    Send,
    Stream,
    Warn,
)
from psclust.replication.sync.backup_barrier import BackupBarrier
from psclust.replication.sync.barrier import Barrier
from psclust.replication.sync.coordinator_ops import CoordinatorOps
from psclust.replication.sync.first_round import first_round
from psclust.replication.sync.messages import (
    Message,
    Update,
    decode_messages,
    encode_tokens,
    encode_update,
)
from psclust.replication.sync.stream_barrier import StreamingBarrier
from psclust.replication.sync.stream_run import StreamRun
from psclust.replication.tf_types import Session

LOG = logging.getLogger(__name__)


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
    first = first_round()
    options: dict[str, Any] = {"step": step, "ended": ended, "max_steps": max_steps}
    if ops.backups:
        return BackupBarrier(ops.workers, first, ops.backups.needed, **options)
    if ops.stream:
        return StreamingBarrier(ops.workers, first, **options)
    return Barrier(
        ops.workers, first, **options, all_reduce=ops.all_reduce is not None, fresh=fresh
    )


class BarrierCoordinator:
    """Carries out the actions of `barrier` in `session`, in a thread of its own.

    left(worker): called when a worker has left, before it gets its STOP token. updated(step):
    called after each update, while nothing writes to the variables. dropped(worker): called when a
    gradient came too late.
    """

    def __init__(
        self,
        session: Session,
        ops: CoordinatorOps,
        barrier: Barrier,
        *,
        left: Callable[[int], None],
        updated: Callable[[int], None],
        dropped: Callable[[int], None] = lambda worker: None,
    ) -> None:
        self._session = session
        self._ops = ops
        self._barrier = barrier
        self._left = left
        self._updated = updated
        self._dropped = dropped
        self._receive = prepare(session, [ops.receive], [ops.count])
        self._update = prepare(session, [ops.update], [ops.made])
        self._stream = StreamRun(session, ops.stream, self._fail) if ops.stream else None
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
                self._stream.open()
            # What was meant for an earlier barrier.
            self._messages(0)
            self._do(barrier.open())
            while not barrier.ended:
                while barrier.awaited:
                    for message in self._messages(barrier.wanted):
                        self._do(barrier.receive(message))
                    self._do(barrier.unblock())
                self._do(barrier.close_round())
        except Exception as error:  # noqa: BLE001 - handed to the main thread
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        # The first error is the cause of the others.
        self.error = self.error or error
        # Another thread may be waiting in the session, the chief's own replica for a token; closing
        # the session wakes it.
        close(self._session)

    def _messages(self, count: int) -> list[Message]:
        """All waiting messages, when there are `count`."""
        (received,) = self._receive(count)
        return decode_messages(received)

    def _make(self, update: Update) -> None:
        if self._stream:
            self._stream.finish()
        self._update(encode_update(update, self._ops.workers))
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
                case Left(worker):
                    self._left(worker)
                case Reset(round_, blocked):
                    self._reset(round_, blocked=blocked)
                case Release(round_):
                    run(ops.release, {ops.round: round_})
                case Warn(text):
                    LOG.warning("%s", text)
                case Collect(worker, round_):
                    assert ops.backups is not None
                    run(ops.backups.collect[worker], {ops.round: round_})
                case Discard(worker):
                    assert ops.backups is not None
                    ops.backups.discard(self._session, worker)
                    self._dropped(worker)
                case Clear(worker, round_):
                    assert ops.backups is not None
                    ops.backups.own[worker].reset(self._session, round_)
                case Stream() | Fill() | RollBack():
                    assert self._stream is not None
                    self._stream.do(action)

    def _reset(self, round_: int, *, blocked: bool) -> None:
        ops = self._ops
        ops.sums.reset(self._session, round_)
        if ops.all_reduce is None:
            return
        if blocked:
            ops.all_reduce.close(self._session, round_)
            self._session.run(ops.release, {ops.round: round_})
        else:
            ops.all_reduce.reset(self._session, round_)
