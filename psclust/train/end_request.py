"""SIGUSR1 ends a training at its next step, with a checkpoint, as a hook's request to stop does. It
comes when `psclust up` gets it, for example from a batch system before the time of an allocation is
over."""

from __future__ import annotations

import signal


class EndRequest:
    """received: whether the signal has come since `listen`."""

    def __init__(self) -> None:
        self.received = False

    def listen(self) -> None:
        """Main thread only."""
        signal.signal(signal.SIGUSR1, self._note)

    def _note(self, number: int, frame: object) -> None:
        self.received = True
