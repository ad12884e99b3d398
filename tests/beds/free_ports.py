"""Free ports for tests that need an address before a process has bound it."""

from __future__ import annotations

import os
import socket
from itertools import chain

_FIRST, _END = 20000, 32000


def free_ports(count: int) -> int:
    """The first of `count` consecutive ports that were free a moment ago, on every address of this
    machine.

    They are below the ephemeral range, and each process searches from another port, so that
    parallel tests seldom collide. Raises OSError if there are none.
    """
    start = _FIRST + os.getpid() * count % (_END - _FIRST)
    for base in chain(range(start, _END - count, count), range(_FIRST, start, count)):
        try:
            for port in range(base, base + count):
                socket.create_server(("", port)).close()
        except OSError:
            continue
        return base
    raise OSError(f"no {count} free ports in a row between {_FIRST} and {_END}")
