"""The chief's side of streamed rounds: a thread makes the run of a stream, while the coordinator
receives messages; and what a chief does about a round that an earlier chief, or its own earlier
session, has left half made."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from psclust.replication.prepared_run import prepare
from psclust.replication.sync.actions import Fill, RollBack, Stream
from psclust.replication.sync.arrivals import inlet_of
from psclust.replication.sync.first_round import first_round
from psclust.replication.sync.half_made import UpdateMarks
from psclust.replication.sync.stream_ops import StreamOps
from psclust.replication.tf_types import Session

LOG = logging.getLogger(__name__)

OTHER_ROUND = "a gradient of another round"


class StreamRun:
    """The streams of one barrier, one after another. failed(error): called in the stream's thread
    if it fails."""

    def __init__(
        self, session: Session, ops: StreamOps, failed: Callable[[Exception], None]
    ) -> None:
        self._session = session
        self._ops = ops
        self._failed = failed
        self._stream = prepare(session, ops.stream, [ops.members])
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    def open(self) -> None:
        """To be called before the barrier opens."""
        self._session.run(self._ops.level)

    def do(self, action: Stream | Fill | RollBack) -> None:
        ops, run = self._ops, self._session.run
        match action:
            case Stream(round_, members):
                inlets = {inlet_of(worker) for worker in members}
                if absent := [push for inlet, push in enumerate(ops.zeros) if inlet not in inlets]:
                    run(absent, {ops.round: round_})
                self._thread = threading.Thread(
                    target=self._run, args=(action,), name="stream", daemon=True
                )
                self._thread.start()
            case Fill(round_, workers):
                self._fill(round_, workers)
            case RollBack(round_, workers):
                self._fill(round_, workers)
                self.finish()
                run(list(ops.roll_back.values()))
                run(ops.level)
                run(ops.settle, {ops.round: round_})

    def _fill(self, round_: int, workers: Sequence[int]) -> None:
        ops = self._ops
        for worker in workers:
            pushes = [ops.zeros[inlet_of(worker)], ops.no_examples]
            self._session.run(pushes, {ops.round: round_})

    def finish(self) -> None:
        """Waits for the end of the stream. Raises its error."""
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self, action: Stream) -> None:
        members = [int(worker in action.members) for worker in range(self._ops.workers)]
        try:
            rounds = np.concatenate(self._stream([action.round, *members]))
        except Exception as error:  # noqa: BLE001 - raised by `finish`
            self._fail(error)
            return
        if (rounds != action.round).any():
            self._fail(_other_round())

    def _fail(self, error: Exception) -> None:
        self._error = error
        self._failed(error)


def _other_round() -> Exception:
    """The error after which the chief opens another session."""
    text = f"{OTHER_ROUND} was waiting, of a task that was thought dead"
    return tf.errors.AbortedError(None, None, text)


def take_over(session: Session, ops: StreamOps, marks: UpdateMarks) -> None:
    """Makes sure that an earlier stream writes nothing more, rolls back what it has written of a
    round that was not counted, and lets workers that wait for it go on. To be called before
    variables are restored and before a barrier opens."""
    round_ = first_round()
    if not any(session.run(ops.fenced)):
        # No chief was here before. Stamps would only have workers pull their variables once more.
        session.run(ops.fence, {ops.round: round_})
        return
    half = marks.half_made(session)
    session.run(ops.fence, {ops.round: round_})
    # Also where no stream had begun: a worker may have got a token of a round whose stream its
    # chief did not live to begin.
    session.run(ops.release, {ops.round: round_})
    if half:
        LOG.info("rolling back a step that was half made on %s", ", ".join(half))
        ops.sums.close(session, round_)
        # An earlier stream that still waits to take would take gradients of the next round: it gets
        # these, and fails at the fence.
        pushes = [*ops.zeros, ops.no_examples]
        while any(lacking := session.run(ops.lacking)):
            session.run(
                [push for push, lacks in zip(pushes, lacking, strict=True) if lacks],
                {ops.round: round_},
            )
        session.run([ops.roll_back[device] for device in half])
        session.run(ops.settle, {ops.round: round_})
        ops.sums.reset(session, round_ + 1)
