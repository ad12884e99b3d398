"""What paramiko's channels lack."""

from __future__ import annotations

from typing import Any


def end_input(channel: Any) -> None:
    """Says that nothing more comes: `channel.shutdown_write()`, which lets go of the lock before it sends. If the other end closes at that
    moment, the transport's thread closes the channel in between, and sshd hangs up on whoever says something about a closed channel. Raises
    OSError, SSHException or EOFError where the connection is lost."""
    with channel.lock:
        message = channel._send_eof()
        if message is not None:
            channel.transport._send_user_message(message)
