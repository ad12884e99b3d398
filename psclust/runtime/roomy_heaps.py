"""What malloc keeps, in a process that has a TensorFlow server.

Threads of gRPC receive into small blocks, which other threads free. By itself glibc gives the end
of a thread's heap back to the system when a few megabytes of it are free, and the next message
takes the same pages again, each cleared first: 44 MB a step of a synchronous worker with 89 MB of
variables."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3


@contextmanager
def roomy_heaps() -> Iterator[None]:
    """Lets each thread that starts inside begin with a heap of 6 MiB, and from now on every thread
    keep its heap, of 64 MiB at most.

    Each of a server's request threads, eight or one for each core (`server_shim.c`), allocates 4.5
    MiB in small pieces at its start, and glibc enlarges a thread's heap one page, one mprotect, at
    a time: with eight, ten thousand calls a server. Changing any of these also freezes the size
    above which a block gets its own mapping; it is set to what it would reach with the first large
    tensors. The user's own settings stay."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt") or any(
        name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ
    ):
        yield
        return
    libc.mallopt(_TOP_PAD, 6 << 20)
    libc.mallopt(_MMAP_THRESHOLD, 32 << 20)
    libc.mallopt(_TRIM_THRESHOLD, 64 << 20)
    try:
        yield
    finally:
        libc.mallopt(_TOP_PAD, 128 << 10)
