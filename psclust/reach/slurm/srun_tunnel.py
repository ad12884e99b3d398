"""A port of this machine that leads to an address as seen from a node: each connection is carried
by a step of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from psclust.reach import relay
from psclust.reach.carried_tunnel import CarriedTunnel
from psclust.reach.slurm.nodes import python_line

_CHUNK = 1 << 16


class SrunTunnel(CarriedTunnel):
    """To `target` (host, port), as seen from the node. srun: the beginning of the command line of a
    step there."""

    def __init__(
        self,
        srun: Sequence[str],
        environ: Mapping[str, str],
        interpreters: Sequence[str],
        target: tuple[str, int],
    ) -> None:
        source = Path(relay.__file__).read_text(encoding="utf-8")
        self._command = [*srun, *python_line(source, [target[0], str(target[1])], interpreters)]
        self._environ = dict(environ)
        super().__init__()

    def _carry(self, client: socket.socket) -> None:
        """Until either end closes the connection: then srun's input ends, the relay, and the
        step."""
        step = subprocess.Popen(
            self._command,
            env=self._environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
        threading.Thread(target=_send, args=(client, step), name="tunnel-send", daemon=True).start()
        assert step.stdout is not None
        with suppress(OSError):
            while data := step.stdout.read(_CHUNK):
                client.sendall(data)
        with suppress(OSError):  # it wakes the thread that receives
            client.shutdown(socket.SHUT_RDWR)
        step.wait()


def _send(client: socket.socket, step: subprocess.Popen[bytes]) -> None:
    assert step.stdin is not None
    with step.stdin as stdin, suppress(OSError):
        while data := client.recv(_CHUNK):
            view = memoryview(data)
            while view:
                view = view[os.write(stdin.fileno(), view) :]
