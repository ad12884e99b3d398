"""The first process of a pod: starts the task, passes signals on, reaps orphans, and ends when the
task or the whole cluster has ended.

As process 1 it ignores every signal that it does not handle, so it blocks them and takes them one
by one."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

_ENDING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_HANDLED = _ENDING | {signal.SIGCHLD}


class Interrupted(Exception):
    """A signal asks this process to end; `code` is the exit code for it."""

    def __init__(self, number: int) -> None:
        self.code = 128 + number
        super().__init__(signal.Signals(number).name)


def hold_signals() -> None:
    """From now on signals wait for `pause`."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)


def pause(seconds_s: float) -> None:
    """Wait that long, or until a child ends. Raises Interrupted."""
    taken = signal.sigtimedwait(_HANDLED, seconds_s)
    if taken is not None and taken.si_signo in _ENDING:
        raise Interrupted(taken.si_signo)


class PodProcess:
    """The task's process, in a session of its own."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> None:
        """Start it. Nothing is raised for a command that does not exist: the process ends with a
        shell's exit code."""
        sys.stdout.flush()
        sys.stderr.flush()
        self.code: int | None = None
        self._pid = os.fork()
        if self._pid == 0:
            _become(argv, env, cwd)

    def reap(self) -> int | None:
        """Take in all children that have ended, orphans of the task too. Returns the task's exit
        code (128 + n for a signal), None while it runs."""
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self._pid:
                    code = os.waitstatus_to_exitcode(ended[1])
                    self.code = 128 - code if code < 0 else code
        return self.code

    def stop(self, within_s: float) -> None:
        """End the task and everything in its process group: TERM, then KILL after `within_s`."""
        deadline = time.monotonic() + within_s
        self._signal(signal.SIGTERM)
        while self.reap() is None and time.monotonic() < deadline:
            with suppress(Interrupted):  # once is enough
                pause(0.1)
        self._signal(signal.SIGKILL)
        while self.reap() is None:
            with suppress(Interrupted):
                pause(0.1)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._pid, number)


def _become(argv: Sequence[str], env: Mapping[str, str], cwd: str) -> NoReturn:
    """In the child."""
    try:
        os.setsid()
        # Python ignores these; programs expect the default.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)
        os.chdir(cwd)
        os.execvpe(argv[0], list(argv), dict(env))
    except OSError as error:
        what = cwd if not Path(cwd).is_dir() else argv[0]
        os.write(2, f"psclust: {what}: {error.strerror}; is it in the image?\n".encode())
        os._exit(126 if isinstance(error, PermissionError) else 127)
    finally:
        os._exit(70)
