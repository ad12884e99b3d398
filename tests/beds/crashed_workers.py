"""A plugin of pytest that says at the end how processes of pytest-xdist crashed: the signal of
each, the native stack of the thread that crashed, where there is a C compiler, and the stacks of
all threads that run Python. xdist says neither."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any, TextIO

import pytest

_LINES = 60  # of the native stack, and of the others
_NATIVE = Path(__file__).with_name("native_stack.c")
_said: list[str] = []
_stacks = pytest.StashKey[TextIO]()
_library = pytest.StashKey[Path]()


def _path(pid: int) -> Path:
    return Path(tempfile.gettempdir()) / f"crashed-worker-{pid}.stacks"


@pytest.hookimpl(trylast=True)  # after pytest's own, whose stacks get lost among all the output
def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        config.stash[_stacks] = _path(os.getpid()).open("w", encoding="utf-8")
        faulthandler.enable(config.stash[_stacks])
        if library := config.workerinput["native_stack"]:
            ctypes.CDLL(library).tell_native_stacks(config.stash[_stacks].fileno())


@pytest.hookimpl(trylast=True)  # after pytest's own, which disables the handler
def pytest_unconfigure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        config.stash[_stacks].close()
        _path(os.getpid()).unlink(missing_ok=True)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """What each process of xdist is told."""
    stash = node.config.stash
    if _library not in stash and shutil.which("gcc"):
        folder = tempfile.TemporaryDirectory()
        node.config.add_cleanup(folder.cleanup)
        stash[_library] = Path(folder.name) / "native_stack.so"
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", stash[_library], _NATIVE], check=True)
    node.workerinput["native_stack"] = str(stash.get(_library, ""))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    if error is None:
        return
    process = node.gateway._io.popen
    try:
        code = process.wait(10)
    except TimeoutExpired:
        _said.append(f"{node.gateway.id} still runs, but its channel is closed")
        return
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    _said.append(f"{node.gateway.id}, process {process.pid}, ended with {how}")
    with suppress(OSError):
        path = _path(process.pid)
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        # The thread that crashed comes first, natively, and last.
        _said.extend(lines[:_LINES] + lines[_LINES:][-_LINES:])
        path.unlink()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if _said:
        terminalreporter.section("crashed workers")
        terminalreporter.write_line("\n".join(_said))
