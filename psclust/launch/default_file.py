"""The cluster file that needs no -f."""

from __future__ import annotations

from pathlib import Path

from psclust.errors import UsageError

# Editors know the second kind by its ending, too.
DEFAULT_FILES = ("psclust.yaml", "cluster.psclust.yaml")


def default_file() -> str | None:
    """The cluster file of the current folder. Raises UsageError if there are two."""
    found = [name for name in DEFAULT_FILES if Path(name).is_file()]
    if len(found) > 1:
        raise UsageError(f"there are {' and '.join(found)} here; name one with -f, or remove one.")
    return found[0] if found else None


def default_name(path: str | None) -> str:
    """Of a cluster file that gives itself no name."""
    if path is not None and Path(path).name not in DEFAULT_FILES:
        return Path(path).stem.removesuffix(".psclust")
    return Path.cwd().name or "cluster"
