"""The chief's side of streamed rounds: a thread makes the run of a stream, while the coordinator
receives messages; and what a chief does about a round that an earlier chief, or its own earlier
session, has left half made."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from psclust.replication.prepared_run import prepare
from psclust.replication.sync.actions import Fill, RollBack, Stream
from psclust.replication.sync.coordinator_ops import CoordinatorOps
from psclust.replication.sync.first_round import first_round
from psclust.replication.sync.stream_ops import StreamOps
from psclust.replication.tf_types import Session

LOG = logging.getLogger(__name__)


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
            case Stream():
                self._thread = threading.Thread(
                    target=self._run, args=(action,), name="stream", daemon=True
                )
                self._thread.start()
            case Fill(round_, workers):
                self._fill(round_, len(workers))
            case RollBack(round_, workers):
                self._fill(round_, len(workers))
                self.finish()
                run(list(ops.roll_back.values()))
                run(ops.level)
                run(ops.settle, {ops.round: round_})

    def _fill(self, round_: int, times: int) -> None:
        for _ in range(times):
            self._session.run(self._ops.zeros, {self._ops.round: round_})

    def finish(self) -> None:
        """Waits for the end of the stream. Raises its error."""
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self, action: Stream) -> None:
        members = [int(worker in action.members) for worker in range(self._ops.workers)]
        try:
            self._stream([action.round, *members])
        except Exception as error:  # noqa: BLE001 - raised by `finish`
            self._error = error
            self._failed(error)


def take_over(session: Session, ops: CoordinatorOps, stream: StreamOps) -> None:
    """Makes sure that an earlier stream writes nothing more, rolls back what it has written of a
    round that was not counted, and lets workers that wait for it go on. To be called before
    variables are restored and before a barrier opens."""
    round_ = first_round()
    fed = {stream.round: round_}
    if not any(session.run(stream.fenced)):
        # No chief was here before. Stamps would only have workers pull their variables once more.
        session.run(stream.fence, fed)
        return
    half = ops.marks.half_made(session)
    session.run(stream.fence, fed)
    # Also where no stream had begun: a worker may have got a token of a round whose stream its
    # chief did not live to begin.
    session.run(stream.release, fed)
    if half:
        LOG.info("rolling back a step that was half made on %s", ", ".join(half))
        ops.sums.close(session, round_)
        # An earlier stream that still waits to take would take gradients of the next round: it gets
        # these, and fails at the fence.
        while session.run(stream.lacking):
            session.run(stream.zeros, fed)
        session.run([stream.roll_back[device] for device in half])
        session.run(stream.settle, fed)
        ops.sums.reset(session, round_ + 1)
