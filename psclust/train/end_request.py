"""How a process learns that it is to end its training before it is over."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading

from psclust.runtime.linux_process import recorded_signals

LOG = logging.getLogger(__name__)

_PATIENCE_S = 10.0


class EndRequest:
    """SIGUSR1 ends a training at its next step, with a checkpoint, as a hook's request to stop
    does. It comes when `psclust up` gets it, for example from a batch system before the time of an
    allocation is over. SIGUSR2 has this process leave after its step, while the variables live on
    in the ps: the run gets another number of workers. received, leaving: whether one has come
    since `listen`.

    One that has not begun leaves at once. The step of a synchronous replica may not end any more:
    another, which died, starts again only when all have left. So it does not wait for ever. What
    either leaves behind is as if it were killed.
    """

    def __init__(self) -> None:
        self.received = False
        self.leaving = False
        self._patience_s = _PATIENCE_S
        self._begun = False
        self._settled = threading.Event()

    def listen(self) -> None:
        """Main thread only."""
        signal.signal(signal.SIGUSR1, self._note)

    def listen_to_leave(self, task: str, *, in_step: bool) -> None:
        """Also to SIGUSR2, as `task`. in_step: its steps wait for other replicas, which also wait
        for it to begin. Main thread only."""
        signal.signal(signal.SIGUSR2, self._note)
        # The main thread, where handlers run, may be waiting for a step.
        signals = recorded_signals()
        os.set_blocking(signals, True)

        def await_signal() -> None:
            while signal.SIGUSR2 not in os.read(signals, 64):
                pass
            self.leaving = True
            if not in_step:
                if not self._begun:
                    _leave(f"{task} leaves before its first step")
            elif not self._settled.wait(self._patience_s):
                _leave(f"{task} leaves in the middle of a step that another does not end")

        threading.Thread(target=await_signal, name="leaving", daemon=True).start()

    def begin(self) -> None:
        """From now on this process holds something that it has to give back."""
        self._begun = True

    def took(self, step_s: float) -> None:
        """A step took so long, so another may."""
        self._patience_s = max(_PATIENCE_S, 3 * step_s)

    def settle(self) -> None:
        """This process waits for no other any more."""
        self._settled.set()

    def _note(self, number: int, frame: object) -> None:
        if number == signal.SIGUSR2:
            self.leaving = True
        else:
            self.received = True


def _leave(text: str) -> None:
    LOG.info("%s", text)
    sys.stdout.flush()
    os._exit(0)
