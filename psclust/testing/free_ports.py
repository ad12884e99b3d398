"""Ports for tests that must write an address down before anything runs."""

from __future__ import annotations

import os
import socket
from itertools import chain

_FIRST, _END = 20000, 32000


def free_ports(count: int) -> int:
    """The first of `count` ports in a row that were free a moment ago, on every address of this machine.

    Below the ephemeral range, and beginning elsewhere in each process, so that tests side by side seldom meet.
    Raises OSError if there are none.
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
