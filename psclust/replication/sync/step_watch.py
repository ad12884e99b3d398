"""Whether a step that takes long still computes its gradient, or waits for other replicas: one run
of the graph does both.

A thread looks at a step that has taken a second or two, and asks only the worker. While the
gradient is computed it is in `_while_computing`: `psclust why` reads that from the stacks of a
program, see `psclust.supervise.python_activity`.
"""

from __future__ import annotations

import threading
from contextlib import suppress

import tensorflow as tf

from psclust.replication.tf_types import Session
from psclust.replication.variables.cell import Mark, read_marks

_LOOK_S = 1.0


class StepWatch:
    """Watches the steps of one replica in `session`. computed: see `ParticipantOps`."""

    def __init__(self, session: Session, computed: Mark) -> None:
        self._session = session
        self._computed = computed
        self._round: int | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="step watch", daemon=True)

    def begin(self, round_: int) -> None:
        """Before the run of a step of `round_`."""
        self._round = round_
        if self._thread.ident is None:
            self._thread.start()

    def done(self) -> None:
        """After that run, also if it has failed."""
        self._round = None

    def end(self) -> None:
        """After the last step. The thread ends within a second."""
        self._ended.set()

    def _run(self) -> None:
        # The session is closed when training ends by an error.
        with suppress(tf.errors.OpError, RuntimeError):
            before = None
            while not self._ended.wait(_LOOK_S):
                round_ = self._round
                if round_ is not None and round_ == before:
                    self._while_computing(round_)
                before = round_

    def _while_computing(self, round_: int) -> None:
        """Returns when the step has ended, or waits for others."""
        while (
            self._round == round_
            and read_marks(self._session, [self._computed]) != [round_]
            and not self._ended.wait(_LOOK_S)
        ):
            pass
