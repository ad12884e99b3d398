"""Replace a file in one step: a reader sees the old content or the new, never a part of either."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from psclust.errors import StartError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write the new content to; it takes the place of `path` at the end, or is removed if
    the block raises."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield aside
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def write_atomically(path: Path, text: str) -> None:
    """Raises OSError, for example when the disk is full."""
    with replacing(path) as aside:
        aside.write_text(text, encoding="utf-8")


def write_required(path: Path, text: str) -> None:
    """As `write_atomically`, for a file that a run cannot start without. Raises StartError."""
    try:
        write_atomically(path, text)
    except OSError as error:
        raise StartError(
            f"{path}: {error.strerror}. Make room, or choose another place with --run-dir."
        ) from None
