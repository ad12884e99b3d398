"""Commands on a host that must not outlive the caller, whatever carries them there."""

from __future__ import annotations

import shlex

# What carries a command ends only the command's input when the caller is gone: a watcher on that
# input ends the command.
_LEASH = (
    "exec 3<&0 </dev/null; { read -r _ <&3; kill -TERM 0; } >/dev/null 2>&1 & watch=$!; exec 3<&-; "
    '"${SHELL:-/bin/sh}" -c "$1"; code=$?; kill "$watch"; exit "$code"'
)


def leash(command: str) -> str:
    """A line of the shell that runs `command` without input and, when its own input ends, ends it
    with all that it started."""
    return "exec " + shlex.join(["sh", "-c", _LEASH, "sh", command])
