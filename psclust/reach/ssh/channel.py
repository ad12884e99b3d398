"""Ends the input of a command, which paramiko's channels do not do safely."""

from __future__ import annotations

from typing import Any


def end_input(channel: Any) -> None:
    """As `channel.shutdown_write()`, but holding the lock until the message is sent. Otherwise the
    transport's thread may close the channel in between, and sshd drops the whole connection for a
    message on a closed channel. Raises OSError, SSHException or EOFError when the connection is
    lost."""
    with channel.lock:
        message = channel._send_eof()
        if message is not None:
            channel.transport._send_user_message(message)
