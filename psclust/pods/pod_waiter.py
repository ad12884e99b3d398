"""The first process of a pod whose tasks an agent runs, as `python -c SOURCE START_S IDLE_S`: it
keeps the pod as long as an agent lives there, and ends the pod when there has been none for a
while. An agent whose launcher is gone ends by its lease, so no pod outlives its run, whatever
happens to the launcher.

When Kubernetes ends the pod, it asks the agents to end, who end their tasks and report that they
leave.

It is sent as text and uses the standard library only."""

import contextlib
import os
import signal
import sys
import time

_AGENT = b"\0-m\0psclust.agent"
# Of one that was forked: see psclust.reach.python.on_host.start_agent.
_SHOWN = b" -m psclust.agent"
_LOOK_S = 0.5
_ENDING = {signal.SIGTERM, signal.SIGINT}


def main(start_s: float, idle_s: float) -> None:
    # As process 1 it ignores every signal that it does not handle.
    taken = {*_ENDING, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, taken)
    end = time.monotonic() + start_s
    asked = False
    while True:
        got = signal.sigtimedwait(taken, _LOOK_S)
        reap()
        found = agents()
        if got is not None and got.si_signo in _ENDING:
            asked = True
            for agent in found:
                ask_to_end(agent)
        if asked and not found:
            return
        if found:
            end = time.monotonic() + idle_s
        elif time.monotonic() > end:
            return


def agents() -> "list[int]":
    """Their pids, and those of their guards, which ignore signals."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        if int(name) == os.getpid():  # whose command line holds this text
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                command = file.read()
        except OSError:
            continue
        if _AGENT in command or _SHOWN in command:
            found.append(int(name))
    return found


def ask_to_end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)


def reap() -> None:
    """Processes whose parent has ended become children of process 1."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]))
