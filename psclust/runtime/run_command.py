"""Execute a command; a failure is one sentence on stderr."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

NOT_FOUND, NOT_EXECUTABLE = 127, 126
_CAUSES = {
    errno.EACCES: "it is a folder or lacks execute permission",
    errno.ENOEXEC: "not a program for this machine, nor a script with a #! line",
}


def execute(argv: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    """Replace this process by a command, looked up on the PATH of `env`; if that fails, exit with a
    shell's code."""
    # Python ignores these; programs expect the default.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], list(argv), env)
    except OSError as error:
        refuse(*_why(argv[0], error))


def _why(name: str, error: OSError) -> tuple[str, int]:
    if error.errno == errno.ENOENT and os.path.exists(name):
        return f"{name}: its interpreter, named in the first line, was not found", NOT_FOUND
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        where = "" if os.path.dirname(name) else " on the task's PATH"
        return f"{name}: command not found{where}", NOT_FOUND
    cause = _CAUSES.get(error.errno or 0, error.strerror)
    return f"{name}: cannot be executed: {cause}", NOT_EXECUTABLE


def refuse(sentence: str, status: int) -> NoReturn:
    """Exit with a sentence on stderr."""
    os.write(2, f"{sentence}\n".encode(errors="surrogateescape"))
    sys.stderr.flush()
    os._exit(status)
