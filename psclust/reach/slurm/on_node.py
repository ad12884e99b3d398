"""The first process of a step, as `python -c SOURCE COMMAND`: runs a line of the shell, and keeps
the step until that and every process it leaves behind (an agent) has ended. Its exit code is the
command's.

Slurm signals a step in different ways: with proctrack/cgroup TERM goes to the step's first process
alone, with proctrack/linuxproc to all its descendants. So the command runs under a parent that is
no descendant: TERM and USR1 reach only the first process, which reports them as lines on its
output, and when Slurm kills that, this parent kills all that is left.

Any Python 3 must understand this file. It is sent as text and uses the standard library only."""

import contextlib
import ctypes
import os
import select
import signal
import sys

NOTICE = b"\x01slurm "
_SUBREAPER = 36


def main(command: str) -> None:
    ended, end = os.pipe()
    alive, hold = os.pipe()
    parting = os.fork()
    if parting == 0:
        os.close(ended)
        os.close(hold)
        os.setsid()
        if os.fork() == 0:
            keep(command, alive, end)
        os._exit(0)
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, forward)
    os.close(0)
    os.close(end)
    os.close(alive)
    os.waitpid(parting, 0)
    code = os.read(ended, 8)
    os._exit(int(code or b"1"))


def forward(number: int, frame: object) -> None:
    with contextlib.suppress(OSError):  # the launcher is gone
        os.write(1, NOTICE + signal.Signals(number).name.encode() + b"\n")


def keep(command: str, alive: int, end: int) -> None:
    """The parent of everything that the command starts. `alive` ends with the first process; `end`
    gets the exit code."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    child = os.fork()
    if child == 0:
        os.closerange(3, 64)
        os.execv("/bin/sh", ["sh", "-c", command])
    os.close(0)
    os.close(1)
    code, left = 0, True
    while left:
        if alive in select.select([alive, wake], [], [])[0]:
            end_all()
            break
        os.read(wake, 1024)
        code, left = reap(child, code)
    os.write(end, str(code).encode())
    os._exit(0)


def reap(child: int, code: int) -> "tuple[int, bool]":
    """Reaps the children that have ended; returns the command's exit code, and whether any child is
    left."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code, False
        if pid == 0:
            return code, True
        if pid == child:
            code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def end_all() -> None:
    """Kill all descendants: the children of those that die become ours."""
    while True:
        for name in os.listdir("/proc"):
            try:
                with open("/proc/" + name + "/stat", "rb") as file:
                    if int(file.read().rpartition(b")")[2].split()[1]) == os.getpid():
                        os.kill(int(name), signal.SIGKILL)
            except (OSError, ValueError):
                continue
        try:
            os.wait()
        except ChildProcessError:
            return


if __name__ == "__main__":
    main(sys.argv[1])
