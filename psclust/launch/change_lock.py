"""One command at a time gives a live run another plan, so each plan is made of the one before."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from psclust.errors import StartError
from psclust.rundir.folder import RunFolder, lock_if_free

_PATIENCE_S = 60.0
_POLL_S = 0.05


@contextmanager
def changing_alone(folder: RunFolder) -> Iterator[None]:
    """Waits for other commands that change this run. Raises StartError after a minute."""
    descriptor = os.open(folder.change_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        until = time.monotonic() + _PATIENCE_S
        while not lock_if_free(descriptor):
            if time.monotonic() > until:
                raise StartError(
                    f"{folder.path.parent.name}: another command has been changing it for "
                    f"{_PATIENCE_S:g} s; end that one, or try again later."
                )
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)
