"""`up --held`: the run belongs to the program at the other end of standard input, such as one that
uses `psclust.Cluster`."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from contextlib import suppress

from psclust.cli.interrupts import Interrupts
from psclust.cli.startup_notes import StartupNotes
from psclust.launch.held_run import HeldRun
from psclust.launch.status_stream import StatusStream
from psclust.rundir.status import RunStatus

_POLL_S = 0.05
_CODE = 143  # as of `psclust down`


class _Requests(threading.Thread):
    """Requests of the program with this pid, each a line `stop` or `now`. Its end, or end of input,
    is a request to stop, too."""

    def __init__(self, program: int) -> None:
        super().__init__(name="requests", daemon=True)
        # Each is written by one thread only.
        self.now = self._asked = self._left = False
        self._program = program

    @property
    def stop(self) -> bool:
        return self._asked or self._left

    def run(self) -> None:
        for line in sys.stdin:
            self._asked, self.now = True, self.now or line.strip() == "now"
        self._asked = True

    def look(self) -> None:
        # Children that the program has forked keep its pipe open.
        self._left = os.getppid() != self._program


def stay_held(
    program: int, run: HeldRun, statuses: StatusStream, notes: StartupNotes, interrupts: Interrupts
) -> int:
    """Prints each status as a line of JSON until the run has ended, and `{"up": true}` when it is
    up; its exit code. program: pid of the process that holds the run."""
    requests = _Requests(program)
    requests.start()
    status: RunStatus | None = None
    asked = 0  # 1: to stop, 2: to stop now
    while not statuses.over:
        fresh = statuses.latest(_POLL_S)
        if fresh is not None:
            status = fresh
            _print(status.to_json())
        if status is not None and not notes.over:
            notes.updates(status, time.monotonic())
            if notes.over:
                _print(json.dumps({"up": True}))
        requests.look()
        wanted = (
            2
            if requests.now or interrupts.count > 1
            else int(requests.stop or interrupts.count > 0)
        )
        if wanted > asked and run.ask_to_end(
            "ended by the program that held it", _CODE, now=wanted > 1
        ):
            asked = wanted
    run.wait()
    final = run.final_status(status)
    _print(final.to_json())
    return final.exit_code or 0


def _print(line: str) -> None:
    with suppress(OSError):  # the program may be gone
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
