"""The port at which a run serves metrics, taken before anything is started."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from psclust.errors import StartError
from psclust.spec.cluster import LOCALHOST, numeric
from psclust.transport.ports import port_holder


@contextmanager
def listen_for_metrics(place: str | None) -> Iterator[int | None]:
    """The file descriptor of a socket that listens at `place` ([address:]port), open within the
    block; None without a place. Raises StartError."""
    if place is None:
        yield None
        return
    host, _, port = place.rpartition(":")
    address = numeric(host or LOCALHOST.name), int(port)
    try:
        listener = socket.create_server(address)
    except OSError as error:
        shown = f"metrics: {address[0]}:{port}"
        if error.errno == errno.EADDRINUSE:
            holder = port_holder(int(port))
            by = f" by {holder}" if holder else ""
            raise StartError(
                f"{shown} is already in use{by}. Stop that process, "
                "or choose another port (--metrics)."
            ) from None
        raise StartError(
            f"{shown}: cannot listen there ({error.strerror}). "
            "Name a free port and an address of this machine."
        ) from None
    with listener:
        yield listener.fileno()
