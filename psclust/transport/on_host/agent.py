"""Starts an agent out of psclust, once that is on the host."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from typing import Any, BinaryIO


def answer(question: dict[str, Any], stream: BinaryIO) -> dict[str, Any]:
    """`question`: `module`, what to run; `stdin`, which tells it what it is to be; `path`, the folder to import it from, None where it is
    installed. What became of it: `code`, `stdout`, `stderr`."""
    environ = {**os.environ, **({"PYTHONPATH": question["path"]} if question["path"] else {})}
    command = [sys.executable, "-m", question["module"]]
    # Where it is started is the first place to look for modules, and somebody's home may hold a psclust, or a json.py.
    done = subprocess.run(command, input=question["stdin"].encode("utf-8"), env=environ, cwd="/", capture_output=True, check=False)
    if done.returncode == 0 and _hung_up(stream):
        # A launcher that was interrupted meanwhile will never dial it.
        os.kill(json.loads(done.stdout.decode("utf-8"))["pid"], signal.SIGTERM)
    return {"code": done.returncode, "stdout": done.stdout.decode("utf-8"), "stderr": done.stderr.decode("utf-8", "replace")}


def _hung_up(stream: BinaryIO) -> bool:
    """Whether nobody is at the other end any more."""
    poll = select.poll()
    poll.register(stream, select.POLLRDHUP)
    return bool(poll.poll(0))
