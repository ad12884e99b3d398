"""A run that this process has started and holds: asked to end, made to end, waited for."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psclust.cli.interrupts import Interrupts
from psclust.errors import NoRunError, PsclustError
from psclust.rundir.folder import ClusterFolder, RunFolder

if TYPE_CHECKING:
    from psclust.control.supervisor_client import SupervisorClient

_ANSWER_S = 1.0  # for one request to end the run
_PATIENCE_S = 10.0  # for a supervisor to take it, before it is killed
_GONE_S = 30.0  # for guard and supervisor to be gone after the run's end
_POLL_S = 0.02


@dataclass
class HeldRun:
    """`guard`: the pid of the run's guard, a child of this process. `forced`: whether the supervisor had to be killed."""

    client: SupervisorClient
    folder: RunFolder
    guard: int
    interrupts: Interrupts
    forced: bool = False
    _asked: float | None = None  # since when it has been asked to end without an answer

    def is_coming_up(self) -> bool:
        """Whether it is worth waiting for the supervisor's first answer."""
        return not self.interrupts.count and os.waitid(os.P_PID, self.guard, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def ask_to_end(self, reason: str, exit_code: int, *, now: bool) -> bool:
        """Whether the supervisor has taken the request. One that does not answer for ten seconds, or, with `now`, at once, is killed, and
        everything that it has started with it."""
        self._asked = self._asked or time.monotonic()
        try:
            self.client.stop(reason, exit_code=exit_code, now=now, timeout=_ANSWER_S)
        except NoRunError:
            if now or time.monotonic() - self._asked > _PATIENCE_S:
                self._force()
            return self.forced
        self._asked = None
        return True

    def end(self, reason: str, exit_code: int) -> None:
        """End the run, and wait until nothing of it is alive. A second Ctrl-C does not wait."""
        with suppress(PsclustError):
            while not self.ask_to_end(reason, exit_code, now=self.interrupts.count > 1) and self.is_alive():
                time.sleep(_POLL_S)
        self.wait()

    def is_alive(self) -> bool:
        cluster = ClusterFolder(self.folder.path.parent)
        current = cluster.current()
        return current is not None and current.id == self.folder.id and cluster.is_live()

    def wait(self) -> None:
        """Until guard and supervisor are gone, which are the last of the run."""
        with suppress(ChildProcessError):
            os.waitpid(self.guard, 0)
        # A guard that was killed leaves its work to the supervisor.
        deadline = time.monotonic() + _GONE_S
        while self.is_alive():
            if time.monotonic() > deadline:
                self._force()
                return
            time.sleep(_POLL_S)

    def _force(self) -> None:
        from psclust.control.forced_stop import force_stop

        self.forced = True
        force_stop(self.folder, _GONE_S)
