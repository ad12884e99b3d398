"""Where a program writes the stacks of its Python threads when it is asked to, beside its progress
file, and the signal that asks."""

from __future__ import annotations

import signal
from pathlib import Path

SUFFIX = ".stacks"
# Programs and batch systems use SIGUSR1 and SIGUSR2, psclust itself the first; real-time signals
# near the last one are free.
STACKS_SIGNAL = int(signal.SIGRTMAX) - 1


def stack_file(progress_file: str) -> Path:
    return Path(progress_file).with_suffix(SUFFIX)
