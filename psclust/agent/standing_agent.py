"""The standing agent, `python -m psclust.agent --standing`: a service that runs the agents of one
user's runs as its children instead of children of an SSH login. They are then in its control group
and under its limits, and survive a logout. It runs commands that logins of the same user delegate
(`standing_protocol`), and stores no secrets. When it gets SIGTERM, it ends its agents first."""

from __future__ import annotations

import logging
import os
import selectors
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

from psclust import framing
from psclust.agent import guard
from psclust.agent.standing_protocol import DelegatedCommand, receive, reply, socket_path
from psclust.errors import StartError

LOG = logging.getLogger(__name__)

_RECEIVE_S = 5.0


def run_standing_agent() -> int:
    """Be the standing agent until SIGTERM. Raises StartError if the socket cannot be created, or
    another standing agent listens."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    path = socket_path(os.environ)
    with _listen(path) as listener:
        LOG.info("listening on %s", path)
        StandingAgent(listener, path).run()
    return 0


def _listen(path: Path) -> socket.socket:
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            if probe.connect_ex(str(path)) == 0:
                raise StartError(
                    f"{path}: a standing agent already listens there. Stop that one first."
                )
        # Left by a standing agent that was killed.
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen()
    except OSError as error:
        raise StartError(
            f"{path}: {error.strerror or error}. "
            "Set XDG_RUNTIME_DIR to a folder of this user's own."
        ) from None
    return listener


class StandingAgent:
    """Single-threaded: one loop starts commands and reaps them."""

    def __init__(self, listener: socket.socket, path: Path) -> None:
        self._listener = listener
        self._path = path
        self._started: dict[int, tuple[subprocess.Popen[bytes], socket.socket]] = {}
        self._signalled: set[int] = set()
        self._stopping = False

    def run(self) -> None:
        """Until SIGTERM; then all it started has ended."""
        guard.become_subreaper()
        woken, wake = socket.socketpair()
        with woken, wake, selectors.DefaultSelector() as selector:
            for end in (woken, wake):
                end.setblocking(False)
            signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
            signal.signal(signal.SIGCHLD, lambda *_: None)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self._stop)
            selector.register(woken, selectors.EVENT_READ)
            selector.register(self._listener, selectors.EVENT_READ)
            while self._reap() or not self._stopping:
                if self._stopping:
                    self._stop_all()
                for key, _ in selector.select():
                    if key.fileobj is woken:
                        woken.recv(1 << 12)
                    elif not self._stopping:
                        self._accept()
        LOG.info("stopped")

    def _stop(self, number: int, frame: object) -> None:
        self._stopping = True
        self._path.unlink(missing_ok=True)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        connection.settimeout(_RECEIVE_S)
        try:
            if framing.peer_uid(connection) != os.getuid():
                LOG.warning("refused user %d", framing.peer_uid(connection))
                connection.close()
                return
            reply(connection, {"welcome": os.getpid()})
            with receive(connection) as command:
                process = _start(command)
            reply(connection, {"pid": process.pid})
        except (OSError, ValueError) as error:
            LOG.warning("not started: %s", error)
            connection.close()
            return
        LOG.info("started process %d", process.pid)
        self._started[process.pid] = (process, connection)

    def _reap(self) -> bool:
        """Reap ended children, orphans of commands included; returns whether any child is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid in self._started:
                process, connection = self._started.pop(pid)
                process.returncode = os.waitstatus_to_exitcode(status)
                with suppress(OSError):  # the client has gone
                    reply(connection, {"code": process.returncode})
                connection.close()

    def _stop_all(self) -> None:
        """TERM each child's process group once: an agent, which ends its tasks, and its guard,
        which ignores it to clean up."""
        for child in guard.children() - self._signalled:
            self._signalled.add(child)
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGTERM)


def _start(command: DelegatedCommand) -> subprocess.Popen[bytes]:
    """In a new session, so that no terminal signals it."""
    return subprocess.Popen(
        command.argv,
        env=command.environ,
        cwd=command.cwd,
        stdin=command.files[0],
        stdout=command.files[1],
        stderr=command.files[2],
        start_new_session=True,
    )
