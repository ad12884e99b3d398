"""Patience with a disk that is full for a moment, where all that has been trained would be lost."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from psclust.errors import NotFiniteError, PsclustError

LOG = logging.getLogger(__name__)

PATIENCE_S = 30.0
_PAUSE_S = 0.5


def patiently(
    write: Callable[[], None], *, patience_s: float = PATIENCE_S, pause_s: float = _PAUSE_S
) -> None:
    """Calls `write` again for so long as it raises PsclustError; raises the last one, and at once
    NotFiniteError, which no other try would mend."""
    end, said = time.monotonic() + patience_s, False
    while True:
        try:
            write()
        except NotFiniteError:
            raise
        except PsclustError as error:
            if time.monotonic() > end:
                raise
            if not said:
                LOG.warning("%s; trying for %.0f s", error, patience_s)
            said = True
            time.sleep(pause_s)
        else:
            return
