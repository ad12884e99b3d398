"""The cluster file that needs no -f."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from psclust.errors import UsageError

# Editors know the second kind by its ending, too.
DEFAULT_FILES = ("psclust.yaml", "cluster.psclust.yaml")
_MOST_FILES = 50
_LOOKS_LIKE_ONE = re.compile(
    r"^(?:program:|jobs:(?:.*\n)*?.*\b(?:ps|worker|chief|master)\b)", re.MULTILINE
)


def default_file() -> str | None:
    """The cluster file of the current folder. Raises UsageError if there are two."""
    found = [name for name in DEFAULT_FILES if Path(name).is_file()]
    if len(found) > 1:
        raise UsageError(f"there are {' and '.join(found)} here; name one with -f, or remove one.")
    return found[0] if found else None


def unread_file() -> str | None:
    """A sentence about a cluster file of the current folder that has a name of its own, for a
    request that names neither file nor program; None if there is none."""
    for path in sorted(path for pattern in ("*.yaml", "*.yml") for path in Path().glob(pattern))[
        :_MOST_FILES
    ]:
        with suppress(OSError, UnicodeDecodeError):
            if _LOOKS_LIKE_ONE.search(path.read_text(encoding="utf-8")):
                return (
                    f"{path} here is not read, because of its name; to start it: "
                    f"psclust up -f {path}"
                )
    return None


def default_name(path: str | None) -> str:
    """Of a cluster file that gives itself no name."""
    if path is not None and Path(path).name not in DEFAULT_FILES:
        return Path(path).stem.removesuffix(".psclust")
    return Path.cwd().name or "cluster"
