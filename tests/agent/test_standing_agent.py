"""The standing agent alone: delegated commands, other users, and its end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from psclust import framing
from psclust.agent.standing_protocol import socket_path
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process

NOBODY = 65534
# As somebody else, once everything is loaded that only we can read.
AS_NOBODY = (
    "import os, psutil; from psclust.agent.standing_agent import run_standing_agent; "
    f"os.setuid({NOBODY}); run_standing_agent()"
)


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A runtime directory, short enough for a socket in it; everybody may look for it."""
    folder = Path(tempfile.mkdtemp(prefix="runtime-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def stand(runtime: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a standing agent, which listens when this returns; its stderr goes to `log` beside the
    socket."""
    started: list[subprocess.Popen[str]] = []

    def stand(*arguments: str) -> subprocess.Popen[str]:
        with (runtime / "log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, *(arguments or ("-m", "psclust.agent", "--standing"))],
                env=_environ(runtime),
                stderr=log,
                text=True,
            )
        started.append(process)
        wait_until(lambda: "listening" in (runtime / "log").read_text(), what="the standing agent")
        return process

    yield stand
    for process in started:
        process.kill()
        process.wait()


def _environ(runtime: Path) -> dict[str, str]:
    return {**os.environ, "XDG_RUNTIME_DIR": str(runtime)}


def _log_in(runtime: Path, said: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    """What `up` starts over SSH."""
    command = [sys.executable, "-m", "psclust.agent"]
    return subprocess.run(
        command,
        env={**_environ(runtime), **environ},
        input=said,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_what_is_handed_over_reads_and_writes_where_it_would_have_and_its_exit_code_comes_back(
    stand: Callable[..., subprocess.Popen[str]], runtime: Path
) -> None:
    alone = _log_in(runtime, '{"no": "request"}')
    assert (alone.returncode, alone.stdout) == (2, "")
    assert "`psclust up` starts agents" in alone.stderr
    stand()
    below = _log_in(runtime, '{"no": "request"}')
    assert (below.returncode, below.stdout, below.stderr) == (
        alone.returncode,
        alone.stdout,
        alone.stderr,
    )
    assert (runtime / "log").read_text().count("started process") == 1


def test_only_one_stands_and_one_that_was_killed_is_followed_by_another(
    stand: Callable[..., subprocess.Popen[str]], runtime: Path
) -> None:
    first = stand()
    second = subprocess.run(
        [sys.executable, "-m", "psclust.agent", "--standing"],
        env=_environ(runtime),
        capture_output=True,
        text=True,
    )
    assert second.returncode == 3
    assert "a standing agent already listens there" in second.stderr
    first.kill()
    first.wait()
    assert socket_path(_environ(runtime)).exists()
    # Nobody listens: the command runs without a standing agent.
    assert _log_in(runtime).returncode == 2
    third = stand()
    assert _log_in(runtime).returncode == 2
    assert "started process" in (runtime / "log").read_text()
    third.terminate()
    assert third.wait(300) == 0
    assert not socket_path(_environ(runtime)).exists()


def test_one_that_is_frozen_is_not_waited_for_and_does_no_harm_later(
    stand: Callable[..., subprocess.Popen[str]], runtime: Path
) -> None:
    frozen = stand()
    frozen.send_signal(signal.SIGSTOP)
    done = _log_in(runtime)
    assert done.returncode == 2
    assert done.stderr.count("`psclust up` starts agents") == 1
    frozen.send_signal(signal.SIGCONT)
    wait_until(lambda: "not started" in (runtime / "log").read_text(), what="its turn")
    assert _log_in(runtime).returncode == 2
    assert (runtime / "log").read_text().count("started process") == 1


def test_without_a_place_to_listen_it_says_what_to_set() -> None:
    command = [sys.executable, "-m", "psclust.agent", "--standing"]
    done = subprocess.run(
        command, env=_environ(Path("/no/such/folder")), capture_output=True, text=True
    )
    assert done.returncode == 3
    assert (
        done.stderr == "/no/such/folder/psclust/agent-1.sock: No such file or directory. "
        "Set XDG_RUNTIME_DIR to a folder of this user's own.\n"
    )


def test_nobody_else_can_look_at_the_socket(
    stand: Callable[..., subprocess.Popen[str]], runtime: Path
) -> None:
    stand()
    path = socket_path(_environ(runtime))
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="two users are needed")
def test_another_user_neither_gives_it_anything_to_run_nor_is_given_anything(
    stand: Callable[..., subprocess.Popen[str]], runtime: Path
) -> None:
    os.chown(runtime, NOBODY, NOBODY)
    stand("-c", AS_NOBODY)
    made = runtime / "made"
    command = json.dumps({"argv": ["touch", str(made)], "cwd": "/", "environ": {}}).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(socket_path(_environ(runtime))))
        # It may have hung up already.
        with suppress(ConnectionError):
            framing.send(connection, command, [0, 1, 2])
            assert connection.recv(1) == b""
    wait_until(lambda: "refused user 0" in (runtime / "log").read_text(), what="the refusal")
    assert not made.exists()
    assert _log_in(runtime).returncode == 2
    assert "started process" not in (runtime / "log").read_text()


def test_told_to_stop_it_ends_what_it_has_started_and_waits_for_it(
    stand: Callable[..., subprocess.Popen[str]], runtime: Path, tmp_path: Path
) -> None:
    standing = stand()
    # An agent that waits for its request has no more than a process.
    waiting = subprocess.Popen(
        [sys.executable, "-m", "psclust.agent"],
        env=_environ(runtime),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_until(lambda: psutil.Process(standing.pid).children(), what="the process")
    (child,) = psutil.Process(standing.pid).children()
    standing.send_signal(signal.SIGTERM)
    assert standing.wait(300) == 0
    assert not child.is_running()
    assert waiting.wait(300) == 128 + signal.SIGTERM
    waiting.communicate()
