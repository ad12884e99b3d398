"""Streamed rounds at work: the stream is part of a step of the chief's own replica, or runs in a
thread of its own, while the barrier receives messages."""

from __future__ import annotations

import threading
from collections.abc import Callable

import tensorflow as tf

from psclust.replication.sync.arrivals import place_of
from psclust.replication.sync.barrier_actions import Fill, RollBack, Stream
from psclust.replication.sync.stream_ops import StreamOps
from psclust.replication.tf_types import Operation, Session
from psclust.train.prepared_run import prepare

OTHER_ROUND = "a gradient of another round"


def other_round() -> Exception:
    """The error after which the chief opens another session."""
    return tf.errors.AbortedError(
        None, None, f"{OTHER_ROUND} was waiting, of a task that was thought dead"
    )


class StreamRun:
    """The streams of one barrier, one after another. failed(error): called in the stream's thread
    if it fails."""

    def __init__(
        self, session: Session, ops: StreamOps, failed: Callable[[Exception], None]
    ) -> None:
        self._session = session
        self._ops = ops
        self._failed = failed
        self._stream = prepare(session, ops.stream, ops.orders)
        # Of the stream that is to begin.
        self.order: list[int] = []
        # Of one that is part of a step: waits for the end of that step. False: the step has not
        # begun.
        self._step_ended: Callable[[], bool] | None = None
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    def begin(self) -> None:
        """To be called before the barrier opens."""
        self._session.run([self._ops.level, self._ops.forget])

    def do(self, action: Stream | Fill | RollBack) -> None:
        ops, run = self._ops, self._session.run
        match action:
            case Stream(round_, _):
                if absent := self._absent(action):
                    run(absent, {ops.round: round_})
                self.order = self._order(action)
            case Fill(round_, workers):
                for worker in workers:
                    run([ops.zeros[place_of(worker)], ops.no_examples], {ops.round: round_})
            case RollBack(round_):
                self.finish()
                run([*ops.roll_back.values(), ops.forget])
                run(ops.level)
                run(ops.settle, {ops.round: round_})

    def order_of(self, action: Stream) -> list[int] | None:
        """The order by which the stream begins; None if something else has to be done before."""
        return None if self._absent(action) else self._order(action)

    def _absent(self, action: Stream) -> list[Operation]:
        """Which give the gradients of those who do not take part."""
        places = {place_of(worker) for worker in action.workers}
        return [push for place, push in enumerate(self._ops.zeros) if place not in places]

    def _order(self, action: Stream) -> list[int]:
        return [
            action.round,
            *(int(worker in action.workers) for worker in range(self._ops.workers)),
        ]

    def start(self) -> None:
        """Begins in a thread the stream that is to begin, if any, unless a step makes it."""
        if self.order and self._step_ended is None:
            order, self.order = self.order, []
            self._thread = threading.Thread(
                target=self._run, args=(order,), name="stream", daemon=True
            )
            self._thread.start()

    def made(self) -> None:
        """A step has made the stream that was to begin."""
        self.order = []

    def await_step(self, ended: Callable[[], bool]) -> None:
        """A step makes the stream that was to begin. ended(): waits for its end; False if it has
        not begun."""
        self._step_ended = ended

    def finish(self) -> None:
        """Waits for the end of the stream. Raises its error."""
        ended, self._step_ended = self._step_ended, None
        if ended is not None and ended():
            self.made()
        self.start()
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self, order: list[int]) -> None:
        try:
            (own,) = self._stream(*[order] * len(self._ops.orders))
        except Exception as error:  # noqa: BLE001 - raised by `finish`
            self._fail(error)
            return
        if not own:
            self._fail(other_round())

    def _fail(self, error: Exception) -> None:
        self._error = error
        self._failed(error)
