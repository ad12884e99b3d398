"""Streamed rounds at work: the stream runs in a thread of its own, while the barrier receives messages."""

from __future__ import annotations

import threading
from collections.abc import Callable

import tensorflow as tf

from psclust.replication.sync.arrivals import place_of
from psclust.replication.sync.barrier_actions import Fill, RollBack, Stream
from psclust.replication.sync.stream_ops import StreamOps
from psclust.replication.tf_types import Session
from psclust.train.prepared_run import prepare

OTHER_ROUND = "a gradient of another round"


class StreamRun:
    """The streams of one barrier, one after another. failed(error): called in the stream's thread if it fails."""

    def __init__(self, session: Session, ops: StreamOps, failed: Callable[[Exception], None]) -> None:
        self._session = session
        self._ops = ops
        self._failed = failed
        self._stream = prepare(session, ops.stream, [ops.order])
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    def begin(self) -> None:
        """To be called before the barrier opens."""
        self._session.run([self._ops.level, self._ops.forget])

    def do(self, action: Stream | Fill | RollBack) -> None:
        ops, run = self._ops, self._session.run
        match action:
            case Stream(round_, workers):
                places = {place_of(worker) for worker in workers}
                if absent := [push for place, push in enumerate(ops.zeros) if place not in places]:
                    run(absent, {ops.round: round_})
                order = [round_, *(int(worker in workers) for worker in range(ops.workers))]
                self._thread = threading.Thread(target=self._run, args=(order,), name="stream", daemon=True)
                self._thread.start()
            case Fill(round_, workers):
                for worker in workers:
                    run([ops.zeros[place_of(worker)], ops.no_examples], {ops.round: round_})
            case RollBack(round_):
                self.finish()
                run([*ops.roll_back.values(), ops.forget])
                run(ops.level)
                run(ops.settle, {ops.round: round_})

    def finish(self) -> None:
        """Waits for the end of the stream. Raises its error."""
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self, order: list[int]) -> None:
        try:
            taken = self._stream(order)
        except Exception as error:  # noqa: BLE001 - raised by `finish`
            self._fail(error)
            return
        if any((rounds != order[0]).any() for rounds in taken):
            # The chief opens another session after it.
            self._fail(tf.errors.AbortedError(None, None, f"{OTHER_ROUND} was waiting, of a task that was thought dead"))

    def _fail(self, error: Exception) -> None:
        self._error = error
        self._failed(error)
