"""Messages on a real socket pair."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pytest

from psclust import framing

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.mark.parametrize("payload", [b"", b"{}", b"x" * (4 << 20)])
def test_a_message_arrives_whole_and_the_next_one_after_it(pair: Pair, payload: bytes) -> None:
    sender = threading.Thread(
        target=lambda: [framing.send(pair[0], each) for each in (payload, b"next")]
    )
    sender.start()
    assert framing.receive(pair[1]) == (payload, [])
    assert framing.receive(pair[1]) == (b"next", [])
    sender.join()


def test_open_files_arrive_with_it(pair: Pair) -> None:
    read, write = os.pipe()
    framing.send(pair[0], b"two", [read, write])
    payload, files = framing.receive(pair[1], max_files=3)
    assert (payload, len(files)) == (b"two", 2)
    os.write(files[1], b"through")
    assert os.read(read, 99) == b"through"
    for file in (read, write, *files):
        os.close(file)


@pytest.mark.parametrize("sent", [b"", b"\0\0", b"\0\0\0\5four", b"\xff\xff\xff\xff"])
def test_a_stream_that_ends_early_and_a_length_that_no_message_has(pair: Pair, sent: bytes) -> None:
    read, write = os.pipe()
    if sent:
        socket.send_fds(pair[0], [sent], [write])
    os.close(write)
    pair[0].shutdown(socket.SHUT_WR)
    with pytest.raises(ConnectionResetError):
        framing.receive(pair[1], max_files=1)
    assert os.read(read, 1) == b""  # the received descriptor is closed
    os.close(read)
