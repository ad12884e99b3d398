"""What a chief does about a streamed round that an earlier chief, or its own earlier session, has
left half made."""

from __future__ import annotations

import logging
import time

from psclust.replication.sync.accumulators import AccumulatorGroup
from psclust.replication.sync.stream_ops import StreamOps
from psclust.replication.tf_types import Session
from psclust.replication.variables.cell import Mark

LOG = logging.getLogger(__name__)


def take_over(session: Session, ops: StreamOps) -> None:
    """Makes sure that an earlier stream writes nothing more, rolls back what it has written of a
    round that was not counted, and lets workers that wait for it go on. To be called before
    variables are restored and before a barrier opens."""
    # Greater than every round before, as the first round of a barrier.
    round_ = time.time_ns() // 1000
    if not any(session.run(ops.fenced)):
        # No chief was here before. Stamps would only have workers pull their variables once more.
        session.run(ops.fence, {ops.round: round_})
        return
    settled = _value(session, ops.settled)
    half = [device for device, tag in ops.tags.items() if _value(session, tag) > settled]
    session.run(ops.fence, {ops.round: round_})
    # Also where no stream had begun: a worker may have got a token of a round whose stream its
    # chief did not live to begin.
    session.run(ops.release, {ops.round: round_})
    if half:
        LOG.info("rolling back a step that was half made on %s", ", ".join(half))
        sums = AccumulatorGroup(session, ops.sums)
        sums.close(round_)
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
        sums.reset(round_ + 1)


def _value(session: Session, mark: Mark) -> int:
    """0, less than every round, if there is none."""
    return int(session.run(mark.value)) if session.run(mark.known) else 0
