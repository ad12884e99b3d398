"""What waits on the connections of a real server that reads nothing."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from psclust.rundir.folder import ClusterFolder, RunFolder
from psclust.supervise.memory_growth import MemoryGrowth
from psclust.supervise.reading import Reading
from psclust.testing.wait import wait_until
from psclust.transport.process_facts import Inspected, inspect_host
from psclust.transport.task_usage import Usage

pytestmark = pytest.mark.process

# It reads what comes, as long as nobody stops it.
SERVER = """
import socket, threading
def read(connection):
    while connection.recv(1 << 16):
        pass
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        threading.Thread(target=read, args=(server.accept()[0],), daemon=True).start()
"""
PIECE, PEERS = 6_000, 4


@pytest.fixture
def server() -> Iterator[tuple[subprocess.Popen[str], int]]:
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())
        process.kill()


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return ClusterFolder(tmp_path / "run").new_run()


def _usage(pid: int, folder: RunFolder) -> Usage:
    facts = inspect_host([Inspected("ps:0", "a", pid, False)], {}, folder)
    return facts.processes["ps:0"].usage


def test_a_stopped_server_is_told_by_what_it_has_not_read(
    server: tuple[subprocess.Popen[str], int], folder: RunFolder
) -> None:
    process, port = server
    growth, found, sent = MemoryGrowth(), list[str](), 0

    def look(number: int, expected: int) -> None:
        wait_until(lambda: _usage(process.pid, folder).unread == expected, what="the bytes")
        now = Reading("ps:0", "server", "a", "running", 1, _usage(process.pid, folder))
        found.extend(growth.take([now], 10.0 * number))

    with ExitStack() as stack:
        peers = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(PEERS)
        ]
        for number in range(13):
            for peer in peers:
                peer.sendall(b"x" * PIECE)
            look(number, 0)
        assert found == []
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)  # all its threads
        for number in range(13, 26):
            for peer in peers:
                peer.sendall(b"x" * PIECE)
            sent += PIECE * PEERS
            look(number, sent)
    assert len(found) == 1
    assert found[0].startswith("ps:0: it does not keep up with what is sent to it: ")
    assert "have arrived that it has not read" in found[0]


def test_a_peer_that_reads_nothing_is_told_by_what_waits(folder: RunFolder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        program = (
            "import socket, sys\n"
            "with socket.create_connection(('127.0.0.1', int(sys.argv[1]))) as peer:\n"
            "    peer.sendall(b'x' * 50_000_000)\n"
        )
        command = [sys.executable, "-c", program, str(listener.getsockname()[1])]
        with subprocess.Popen(command) as process, listener.accept()[0]:
            wait_until(
                lambda: (_usage(process.pid, folder).unsent or 0) > 100_000, what="the bytes"
            )
            process.kill()
