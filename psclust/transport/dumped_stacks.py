"""The Python threads of a program that offers them (`psclust.runtime.stack_dump`), in the format of
Python's `faulthandler`."""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from psclust.rundir.task_progress import STACKS_SIGNAL, STACKS_SUFFIX

_DEADLINE_S = 5.0
_POLL_S = 0.01
_CURRENT = "Current thread 0x"
_CUT = "\n...\n"  # after the hundredth thread
_THREAD = re.compile(r"(?:Current thread|Thread) 0x")
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')

Stack = tuple[tuple[str, str, int], ...]


def dumped_stacks(pid: int) -> tuple[Stack, ...]:
    """(function, file, line) of each frame, innermost first, the main thread first; none from a
    process without that offer."""
    file = _offered(pid)
    if file is None:
        return ()
    with (
        suppress(OSError, AttributeError),
        file.open("r+b") as dump,
    ):  # a C library without tgkill has no TensorFlow either
        fcntl.flock(dump, fcntl.LOCK_EX)  # one `why` at a time
        dump.truncate()
        # A dump has no end. The main thread begins the second one when it has finished the first.
        for _ in range(2):
            ctypes.CDLL(None).tgkill(pid, pid, STACKS_SIGNAL)
        return parse_stacks(_read(dump.fileno()))
    return ()


def _offered(pid: int) -> Path | None:
    """The file that the process has open for its stacks, if it still catches the signal: else that
    would end it."""
    with suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
        caught = re.search(r"^SigCgt:\s*([0-9a-f]+)", status, re.MULTILINE)
        if caught is None or not int(caught[1], 16) >> (STACKS_SIGNAL - 1) & 1:
            return None
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
                if target.endswith(STACKS_SUFFIX):
                    return Path(target)
    return None


def _read(descriptor: int) -> str:
    """Two dumps, or as much of them as there is after some time."""
    deadline, text = time.monotonic() + _DEADLINE_S, ""
    while time.monotonic() < deadline and text.count(_CURRENT) < 2 and text.count(_CUT) < 2:
        time.sleep(_POLL_S)
        text = os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode("utf-8", "replace")
    return text


def parse_stacks(text: str) -> tuple[Stack, ...]:
    """The threads of the first of two dumps, the main thread, which got the signal, first; an empty
    one in its place if it is left out, as of very many threads some are."""
    stacks: list[tuple[str, Stack]] = []
    for head, stack in _stacks(text):
        if stacks and (
            head == stacks[0][0]
            or (
                head.startswith(_CURRENT) and any(known.startswith(_CURRENT) for known, _ in stacks)
            )
        ):
            break
        stacks.append((head, stack))
    main = [stack for head, stack in stacks if head.startswith(_CURRENT)] or [()]
    return (
        (*main, *(stack for head, stack in stacks if not head.startswith(_CURRENT)))
        if stacks
        else ()
    )


def _stacks(text: str) -> Iterator[tuple[str, Stack]]:
    """First line and frames of each thread."""
    head: str | None = None
    frames: list[tuple[str, str, int]] = []
    for line in [*text.splitlines(), "Thread 0x"]:
        if _THREAD.match(line):
            if head is not None:
                yield head, tuple(frames)
            head, frames = line, []
        elif frame := _FRAME.fullmatch(line):
            frames.append((frame[3], frame[1], int(frame[2])))
