"""A port of this machine that leads to an address as seen from a pod: each connection is carried by
an exec of its own."""

from __future__ import annotations

import socket
import threading
from contextlib import closing, suppress
from pathlib import Path

from psclust.errors import PsclustError
from psclust.reach import relay
from psclust.reach.carried_tunnel import CarriedTunnel
from psclust.reach.kubernetes.kube_api import KubeApi
from psclust.reach.kubernetes.kube_exec import ExecStream

_CHUNK = 1 << 16


class ExecTunnel(CarriedTunnel):
    """To `target` (host, port). python: the interpreter in the pod."""

    def __init__(self, api: KubeApi, pod: str, python: str, target: tuple[str, int]) -> None:
        self._api, self._pod = api, pod
        source = Path(relay.__file__).read_text(encoding="utf-8")
        self._command = [python, "-S", "-E", "-c", source, target[0], str(target[1])]
        super().__init__()

    def _carry(self, client: socket.socket) -> None:
        try:
            stream = ExecStream(self._api.exec(self._pod, self._command))
        except PsclustError as error:
            raise OSError(str(error)) from None
        threading.Thread(
            target=_send, args=(client, stream), name="tunnel-send", daemon=True
        ).start()
        try:
            with closing(stream.output()) as output:
                for data in output:
                    client.sendall(data)
        finally:
            with suppress(OSError):  # it wakes the thread that receives
                client.shutdown(socket.SHUT_RDWR)


def _send(client: socket.socket, stream: ExecStream) -> None:
    with suppress(OSError):
        while data := client.recv(_CHUNK):
            stream.send(data)
    stream.end_input()
    stream.close()
