"""The standing agent, `python -m psclust.agent --standing`: a process that is always there, so that the agents of runs become its children
in place of those of an SSH log-in. They are then in its control group and under its limits, and no log-out ends them. It runs what a
log-in of the same user hands over (`delegate`), hands no secret on and keeps none. When it is told to stop, so are they."""

from __future__ import annotations

import logging
import os
import selectors
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

from psclust.agent import guard
from psclust.agent.standing_protocol import DelegatedCommand, peer_uid, receive, say, socket_path
from psclust.errors import StartError

LOG = logging.getLogger(__name__)

_PATIENCE_S = 5.0  # for whoever has dialled to say what for


def stand() -> int:
    """Be the standing agent until SIGTERM. Raises StartError where it has no place to listen, and where one stands already."""
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
                raise StartError(f"{path}: a standing agent listens there already. Stop that one first.")
        # Somebody's who was killed.
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen()
    except OSError as error:
        raise StartError(f"{path}: {error.strerror or error}. Set XDG_RUNTIME_DIR to a folder of this user's own.") from None
    return listener


class StandingAgent:
    """Has a single thread, which alone starts processes and takes note of their ends."""

    def __init__(self, listener: socket.socket, path: Path) -> None:
        self._listener = listener
        self._path = path
        self._started: dict[int, tuple[subprocess.Popen[bytes], socket.socket]] = {}
        self._told: set[int] = set()
        self._leaving = False

    def run(self) -> None:
        """Until told to stop; then nothing that it has started is alive."""
        guard.become_subreaper()
        woken, wake = socket.socketpair()
        with woken, wake, selectors.DefaultSelector() as selector:
            for end in (woken, wake):
                end.setblocking(False)
            signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
            signal.signal(signal.SIGCHLD, lambda *_: None)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self._told_to_stop)
            selector.register(woken, selectors.EVENT_READ)
            selector.register(self._listener, selectors.EVENT_READ)
            while self._reap() or not self._leaving:
                if self._leaving:
                    self._stop_all()
                for key, _ in selector.select():
                    if key.fileobj is woken:
                        woken.recv(1 << 12)
                    elif not self._leaving:
                        self._accept()
        LOG.info("nothing is left")

    def _told_to_stop(self, number: int, frame: object) -> None:
        self._leaving = True
        self._path.unlink(missing_ok=True)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        connection.settimeout(_PATIENCE_S)
        try:
            if peer_uid(connection) != os.getuid():
                LOG.warning("user %d was refused", peer_uid(connection))
                connection.close()
                return
            say(connection, {"welcome": os.getpid()})
            with receive(connection) as order:
                process = _start(order)
            say(connection, {"pid": process.pid})
        except (OSError, ValueError) as error:
            LOG.warning("not started: %s", error)
            connection.close()
            return
        LOG.info("started process %d", process.pid)
        self._started[process.pid] = (process, connection)

    def _reap(self) -> bool:
        """Takes note of who has ended; whether anybody is alive. Among them are orphans of those that it has started."""
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
                with suppress(OSError):  # who asked has gone
                    say(connection, {"code": process.returncode})
                connection.close()

    def _stop_all(self) -> None:
        """TERM, once, to every child's own group: an agent and its guard, which stays to clean up; the agent ends its tasks."""
        for child in guard.children() - self._told:
            self._told.add(child)
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGTERM)


def _start(order: DelegatedCommand) -> subprocess.Popen[bytes]:
    """As whoever handed it over would have run it; in a session of its own, because no terminal's keys are meant for it."""
    return subprocess.Popen(
        order.argv,
        env=order.environ,
        cwd=order.cwd,
        stdin=order.files[0],
        stdout=order.files[1],
        stderr=order.files[2],
        start_new_session=True,
    )
