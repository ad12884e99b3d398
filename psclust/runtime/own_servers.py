"""TensorFlow servers in the process of a script: what psclust has to know of them, and how long
they live."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from psclust.rundir.atomic_file import write_atomically
from psclust.rundir.task_progress import FINISHED, SERVING, Progress
from psclust.runtime.linux_process import recorded_signals, wait_for_a_signal

_LOOK_S = 0.5  # for a signal that comes as the wait begins


class OwnServers:
    """Reports the state of TensorFlow servers in the program's own process, which its exit code
    cannot show.

    A program that calls `Server.join`, which never returns, is only a server from then on: psclust
    stops it when the others are done, instead of waiting for it. A server outlives its program if
    that ends successfully: a client without device filters connects to every task at its start, and
    would wait for ever for one that has ended."""

    def __init__(self, progress_file: str) -> None:
        self._progress_file = Path(progress_file)
        self._process = os.getpid()
        self._started = False
        self._signals = recorded_signals()

    def watch(self, server_lib: Any) -> None:
        """Until the process ends. server_lib: TensorFlow's module of that name."""
        join, start = server_lib.Server.join, server_lib.Server.start

        def reported_join(server: Any) -> None:
            self._report(SERVING)
            # TensorFlow waits outside of Python, where no handler of the program's runs. Neither
            # returns. Not `signal.pause`: a signal just before it would wait for the next one.
            while threading.current_thread() is threading.main_thread():
                time.sleep(_LOOK_S)
            join(server)

        def noted_start(server: Any) -> None:
            self._started = self._started or self._is_here()
            start(server)

        server_lib.Server.join, server_lib.Server.start = reported_join, noted_start

    def outlive_program(self) -> None:
        """If the program has started a server, serve until the supervisor ends this process; not if
        it has tried to, and the program's own handler of SIGTERM has ended the program well."""
        if self._started and not self._was_to_end():
            self._report(FINISHED)
            signal.signal(
                signal.SIGTERM, signal.SIG_DFL
            )  # the program's handler is for a program that runs
            wait_for_a_signal()

    def _was_to_end(self) -> bool:
        """Whether the program has handled SIGTERM. Unknown where it has set a wakeup descriptor of
        its own, as asyncio does."""
        try:
            return signal.SIGTERM in os.read(self._signals, 1 << 16)
        except OSError:  # none, or the program has closed descriptors it did not open
            return False

    def _is_here(self) -> bool:
        """False in a process that the program has forked: its servers are not those of the
        program."""
        return os.getpid() == self._process

    def _report(self, phase: str) -> None:
        if not self._is_here():
            return
        with suppress(OSError):
            write_atomically(self._progress_file, Progress(phase=phase).to_json())
