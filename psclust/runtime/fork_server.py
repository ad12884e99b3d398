"""A process that has TensorFlow in memory and forks a task per request. It is run as a file,

    python [-I -S] .../psclust/runtime/fork_server.py --preload WHAT --socket FD

WHAT is library, tensorflow, psclust, keras or nothing. FD is one end of a Unix stream socket; the
client, `psclust/transport/fork_server_client.py`, has the other. Every message, both ways, is JSON
behind a length (`psclust.framing`).

- first, from the fork server: {"ready": true, "preload_s": 0.4} or {"error": "..."}
- request: {"argv", "env" (complete), "cwd", "supervisor" (pid), "recovery_wait_s" (or null)}, with
  one file descriptor, sent with the length, that becomes the task's stdout and stderr
- reply: {"pid": n} or {"error": "..."}

End of file ends the fork server, and so does the death of its parent, without effect on its tasks.

A task is forked twice, so that the supervisor, a subreaper, becomes its parent and waits for it.
This process must have a single thread, because a fork copies only the thread that calls it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress

if __name__ == "__main__":
    # sys.path starts with this folder, or with -I lacks it. Replace it by the folder that holds the
    # package, last, so that it hides none of the interpreter's own modules.
    _here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if entry != _here]
    _home = os.path.dirname(os.path.dirname(_here))
    if _home not in sys.path:
        sys.path.append(_home)

from psclust import framing
from psclust.errors import PsclustError
from psclust.runtime import linux_process, preload, start_task


def main() -> None:
    """Preload, then serve until the socket ends."""
    started = time.monotonic()
    parser = argparse.ArgumentParser(prog="fork_server.py", description=__doc__)
    parser.add_argument("--preload", required=True, choices=sorted(preload.KINDS))
    parser.add_argument(
        "--socket", required=True, type=int, help="file descriptor of the socket to serve"
    )
    flags = parser.parse_args()
    linux_process.die_with_parent()
    # Ctrl-C and TERM are for the supervisor, which ends this process by closing the socket.
    for number in linux_process.CHANGED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    requests = socket.socket(fileno=flags.socket)
    # The supervisor may close the socket, or die, at any moment.
    with suppress(BrokenPipeError, ConnectionResetError):
        try:
            loaded = preload.KINDS[flags.preload]()
        except PsclustError as error:
            send(requests, {"error": str(error)})
            return
        send(requests, {"ready": True, "preload_s": round(time.monotonic() - started, 3)})
        while True:
            message, (output,) = framing.receive(requests, max_files=1)
            send(requests, answer(start_task.Task(**json.loads(message)), output, loaded))


def answer(wanted: start_task.Task, output: int, loaded: preload.Loaded) -> dict[str, object]:
    """Start the requested task; returns the reply."""
    try:
        return {"pid": start(wanted, output, loaded)}
    except OSError as error:
        return {"error": f"could not start a process: {error.strerror}"}
    finally:
        os.close(output)


def start(wanted: start_task.Task, output: int, loaded: preload.Loaded) -> int:
    """Fork twice; returns the pid of the task, which by then leads its own session. The process in
    between, its first parent, has ended, so that the task is the supervisor's child."""
    read, write = os.pipe()
    middle = os.fork()
    if middle == 0:
        parent = os.getpid()
        try:
            if os.fork() == 0:
                start_task.run(wanted, output, write, parent, loaded)
        except OSError as error:
            os.write(write, json.dumps({"errno": error.errno}).encode())
        os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        outcome = json.loads(pipe.readline() or b"{}")
    os.waitpid(middle, 0)
    if "pid" not in outcome:
        raise OSError(outcome.get("errno", 0), os.strerror(outcome.get("errno", 0)))
    return int(outcome["pid"])


def send(requests: socket.socket, message: Mapping[str, object]) -> None:
    framing.send(requests, json.dumps(message).encode())


if __name__ == "__main__":
    main()
