"""The one command that psclust runs on a host: a Python, which is told all the rest on its standard input. Shown by `psclust plan`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

NO_PYTHON = 127  # exit code
AGENT = "psclust.agent"  # the module that becomes an agent

# The folder it is started in is no place to look for modules: somebody's home may hold a json.py.
BOOT = "import sys; sys.path[:] = filter(None, sys.path); f = sys.stdin.buffer; exec(f.read(int(f.readline())))"
# The first of the candidates that is there, whatever shell the user has.
_SHELL = (
    'boot=$1; shift; for p; do case $p in "~/"*) p=$HOME/${p#"~/"};; esac; '
    f'if command -v "$p" >/dev/null 2>&1; then exec "$p" -c "$boot"; fi; done; exit {NO_PYTHON}'
)


def candidates(wanted: str | None) -> Sequence[str]:
    """Where to look: `python:` of the cluster file, or else our own interpreter's path, which a host with the same set-up has too."""
    return [wanted] if wanted is not None else list(dict.fromkeys([sys.executable, "python3"]))


def remote_command(pythons: Sequence[str]) -> str:
    """A line for the user's shell there: the first of `pythons` that is there."""
    return "exec " + shlex.join(["sh", "-c", _SHELL, "sh", BOOT, *pythons])
