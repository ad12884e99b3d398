"""The only command that psclust runs on a host: a Python that reads everything else from its
standard input. `psclust plan` shows it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

NO_PYTHON = 127  # exit code
AGENT = "psclust.agent"  # the module that becomes an agent

# sys.path starts with the login directory; a home may contain a json.py.
BOOT = (
    "import sys; sys.path[:] = filter(None, sys.path); f = sys.stdin.buffer; "
    "exec(f.read(int(f.readline())))"
)
# The first candidate that exists, whatever shell the user has.
_SHELL = (
    'boot=$1; shift; for p; do case $p in "~/"*) p=$HOME/${p#"~/"};; esac; '
    f'if command -v "$p" >/dev/null 2>&1; then exec "$p" -c "$boot"; fi; done; exit {NO_PYTHON}'
)


def candidates(wanted: str | None) -> Sequence[str]:
    """Interpreters to try: `python:` of the cluster file, else the path of our own, which equal
    hosts share, then python3."""
    return [wanted] if wanted is not None else list(dict.fromkeys([sys.executable, "python3"]))


def remote_command(pythons: Sequence[str]) -> str:
    """A line for the user's shell that starts the first of `pythons` that exists."""
    return "exec " + shlex.join(["sh", "-c", _SHELL, "sh", BOOT, *pythons])
