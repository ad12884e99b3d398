"""Carries bytes between its input and output and an address, on a host, as `python -c SOURCE HOST
PORT`; ends when either end closes.

It is sent as text and uses the standard library only."""

import os
import select
import socket
import sys


def main(host: str, port: str) -> None:
    with socket.create_connection((host, int(port))) as peer:
        while True:
            ready = select.select([0, peer.fileno()], [], [])[0]
            if 0 in ready:
                data = os.read(0, 65536)
                if not data:
                    return
                peer.sendall(data)
            if peer.fileno() in ready:
                data = peer.recv(65536)
                if not data:
                    return
                while data:
                    data = data[os.write(1, data) :]


if __name__ == "__main__":
    main(*sys.argv[1:])
