"""A forwarder, as seen by the process that has it: an agent, or a supervisor for its own host."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

import psclust
from psclust import framing
from psclust.errors import StartError
from psclust.forward import wires
from psclust.forward.route import Route
from psclust.forward.tls import Identity, expected_tls
from psclust.spec.tensorflow_builds import LIBRARY
from psclust.transport.ports import listen_in

LOG = logging.getLogger(__name__)

_AGAIN_S = 0.2  # between two starts of the process, at least
# By a path of its own: the folder of the program that runs may have modules of any name.
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); import socket; "
    "from psclust.forward.forwarder import main; main(socket.socket(fileno=int(sys.argv[2])))"
)


class ForwarderProcess:
    """Starts the process, and starts it again whenever it ends: its sockets are kept here, so no
    connection is refused meanwhile; those that it carried are gone.

    native: psclust's library for TLS, None where it was not built. ports: a range, or auto, of the
    port for other hosts; None: no task runs here. Raises StartError, OSError."""

    def __init__(
        self,
        identity: Identity,
        native: str | None,
        peer_timeout_s: float,
        ports: str | None,
    ) -> None:
        tensorflow = find_tensorflow()
        self.tls = expected_tls(native, tensorflow)
        self._first = json.dumps(
            {
                "identity": asdict(identity),
                "native": native,
                "tensorflow": tensorflow,
                "peer_timeout_s": peer_timeout_s,
            }
        ).encode()
        self._routes: dict[int, tuple[Route, socket.socket | None]] = {}
        self._guard = threading.Lock()  # of what follows, and of `_routes`
        self._closed = False
        self._door = self._wires = None
        if ports is not None:
            self._door, self._wires = listen_in("0.0.0.0", ports), wires.listening()
        self._control = self._start()
        threading.Thread(target=self._watch, name="forwarder", daemon=True).start()

    @property
    def port(self) -> int:
        """Where forwarders of other hosts connect to, on every interface; 0: nowhere."""
        return int(self._door.getsockname()[1]) if self._door is not None else 0

    @property
    def environ(self) -> dict[str, str]:
        """By which tasks of this host find it (native/forwarded.c)."""
        name = self._wires.getsockname() if self._wires is not None else b""
        return {"PSCLUST_FORWARDER": name[1:].decode()} if name else {}

    def forward(self, routes: Sequence[Route]) -> list[int]:
        """From now on; in place of other routes of the same ports. Returns the ports that others
        have taken."""
        busy = []
        with self._guard:
            for route in routes:
                known, _ = self._routes.get(route.port, (None, None))
                if known == route:
                    continue  # it never ceases to listen
                self._forget(route.port)
                try:
                    port = str(route.port)
                    listener = listen_in("127.0.0.1", port) if route.listens else None
                except StartError:
                    busy.append(route.port)
                    continue
                self._routes[route.port] = route, listener
                self._tell(self._control, "forward", asdict(route), listener)
        return busy

    def forget(self, ports: Sequence[int]) -> None:
        """Free ports, for tasks that are to run here."""
        with self._guard:
            for port in ports:
                self._forget(port)

    def way(self, address: str) -> str:
        """Where a connection to an address of 127.0.0.1 goes: the door of the other host."""
        with self._guard:
            route, _ = self._routes.get(int(address.rpartition(":")[2]), (None, None))
        return route.address if route is not None else address

    def close(self) -> None:
        with self._guard:
            self._closed = True
            with suppress(OSError):
                self._control.shutdown(socket.SHUT_RDWR)  # `_watch` waits for it
            for listener in (self._door, self._wires, *(each for _, each in self._routes.values())):
                if listener is not None:
                    listener.close()

    def _forget(self, port: int) -> None:
        if port not in self._routes:
            return
        _, listener = self._routes.pop(port)
        self._tell(self._control, "forget", port)
        if listener is not None:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # the process has it, too
            listener.close()

    @staticmethod
    def _tell(
        control: socket.socket, method: str, value: object, listener: socket.socket | None = None
    ) -> None:
        files = [listener.fileno()] if listener is not None else []
        with suppress(OSError):  # it has ended; the next one will be told
            framing.send(control, json.dumps({method: value}).encode(), files)

    def _start(self) -> socket.socket:
        """The socket by which the new process is told what to do. Raises OSError."""
        ours, theirs = socket.socketpair()
        folder = str(Path(psclust.__file__).parents[1])
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _START, folder, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PSCLUST_ADMIT": ""},  # nobody but this user
                stdin=subprocess.DEVNULL,
            )
        # Whoever started this process reaps all children; Popen must not wait for them.
        process.returncode = 0
        framing.send(ours, self._first)
        for route, listener in self._routes.values():
            self._tell(ours, "forward", asdict(route), listener)
        if self._door is not None:
            self._tell(ours, "take_in", None, self._door)
            self._tell(ours, "hand_over", None, self._wires)
        return ours

    def _watch(self) -> None:
        control = self._control
        while True:
            began = time.monotonic()
            with suppress(OSError):
                LOG.info("forwarding by %s", framing.receive(control)[0].decode())
                framing.receive(control)  # until the process has ended
            control.close()
            # One that ends at once is not started without end.
            time.sleep(max(0.0, began + _AGAIN_S - time.monotonic()))
            with self._guard:
                if self._closed:
                    return
                LOG.warning("the forwarder has ended; it is started again")
                try:
                    control = self._control = self._start()
                except OSError as error:
                    LOG.warning("the forwarder: %s", error.strerror)


def find_tensorflow() -> str | None:
    """The library of the TensorFlow that is installed, or in PSCLUST_TENSORFLOW."""
    folder = os.environ.get("PSCLUST_TENSORFLOW")
    if folder is None:
        spec = find_spec("tensorflow")
        folder = next(iter(spec.submodule_search_locations or ()), None) if spec else None
    path = Path(folder, LIBRARY) if folder is not None else None
    return str(path) if path is not None and path.exists() else None
