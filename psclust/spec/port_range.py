"""The value of a `ports` key: `auto`, one port (task i takes that plus i), or a range such as
`2300-2399`."""

from __future__ import annotations

LAST_PORT = 65535


def parse_port_range(ports: str) -> tuple[int, int]:
    """The first and the last port, the same for a single one; 0, 0 for `auto`: bound to port 0, a
    socket gets any free one."""
    if ports == "auto":
        return 0, 0
    first, _, last = ports.partition("-")
    return int(first), int(last or first)


def is_range(ports: str) -> bool:
    return "-" in ports


def is_fixed(ports: str) -> bool:
    return ports.isdecimal()
