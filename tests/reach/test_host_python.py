"""Asking a Python that has nothing of psclust: what it is like, and every way in which it may be of
no use."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import psutil
import pytest

import psclust
from psclust.errors import HostError, StartError
from psclust.reach.host_command import HostCommand
from psclust.reach.python.host_facts import ask_facts, own_digest
from psclust.reach.python.host_python import HostPython, start_local_python
from psclust.reach.python.local_process import LocalProcess
from psclust.reach.python.on_host.facts import (
    GRPCIO,
    missing_requirements,
    package_digest,
    version_of,
)
from psclust.reach.python.remote_command import BOOT
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process


def python(folder: Path, *lines: str) -> str:
    """A program that stands where an interpreter should; `$1` is `-c`, `$2` what it is to run."""
    path = folder / "python"
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return str(path)


def brought(
    folder: Path, name: str, version: str, package: str, listed: str = "top_level.txt"
) -> None:
    """An installed distribution with a package."""
    (folder / package).mkdir()
    (folder / package / "__init__.py").touch()
    metadata = folder / f"{name}-{version}.dist-info"
    metadata.mkdir()
    (metadata / listed).write_text(
        f"{package}\n" if listed == "top_level.txt" else f"{package}/__init__.py,sha256=x,0\n"
    )


def asked(here: HostPython) -> str:
    with here:
        return ask_facts("here", here).version


def test_it_says_what_it_is_and_has_without_importing_it() -> None:
    with start_local_python(sys.executable) as here:
        found = ask_facts("here", here)
    assert found.version == ".".join(map(str, sys.version_info[:3]))
    assert found.executable == sys.executable
    assert (found.tensorflow or "").startswith("2.")
    assert (found.psclust is not None, found.missing) == (True, ())
    assert abs(found.clock) < 0.1 + found.clock_error
    assert found.state in found.disks
    assert all(free > 0 for free in found.disks.values())


@pytest.mark.parametrize(
    ("version", "missing"), [("1.48.2", ["grpcio>=1.49"]), ("1.49.0", []), ("2.0.0rc1", [])]
)
def test_a_grpcio_that_is_too_old_for_an_agent_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, missing: list[str]
) -> None:
    brought(tmp_path, "grpcio", version, "grpc")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert missing_requirements() == missing


@pytest.mark.parametrize("name", ["tf_nightly", "tensorflow_rocm", "somebodys_own"])
@pytest.mark.parametrize("listed", ["top_level.txt", "RECORD"])
def test_a_package_has_a_version_whatever_its_distribution_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, listed: str
) -> None:
    brought(tmp_path, name, "2.99.1", "flow_of_tensors", listed)
    brought(tmp_path, "flow_of_tensors_estimator", "2.15.0", "flow_of_tensors_estimator", listed)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert version_of("flow_of_tensors") == "2.99.1"
    shutil.rmtree(tmp_path / f"{name}-2.99.1.dist-info")
    assert version_of("flow_of_tensors") == "of unknown version"


def test_an_agent_needs_the_grpcio_that_psclust_requires() -> None:
    setup = (Path(__file__).parents[2] / "setup.py").read_text(encoding="utf-8")
    assert f'"grpcio>={".".join(map(str, GRPCIO))}"' in setup


def test_the_digest_of_psclust_is_of_its_sources_alone(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1")
    first = package_digest(str(tmp_path))
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.py").write_text("cache")
    (tmp_path / "shim.so").write_text("compiled")
    assert package_digest(str(tmp_path)) == first
    (tmp_path / "a.py").write_text("2")
    assert package_digest(str(tmp_path)) != first
    assert package_digest(str(Path(psclust.__file__).parent)) == own_digest()


def test_what_a_shell_says_first_and_modules_that_lie_about_do_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')\n")
    monkeypatch.chdir(tmp_path)
    noisy = python(tmp_path, "echo Welcome; echo 'today: {}'", f'exec {sys.executable} "$@"')
    assert asked(start_local_python(noisy)).startswith("3.")


def test_a_python_that_is_too_old_is_told_from_one_that_is_broken(tmp_path: Path) -> None:
    old = python(
        tmp_path, f'exec {sys.executable} -c "import sys; sys.version_info = (3, 9, 2); $2"'
    )
    with pytest.raises(
        StartError,
        match=r"this machine: \S+ is Python 3\.9\.2; psclust needs 3\.10 or newer\. "
        r"Name another one under",
    ):
        start_local_python(old)
    broken = python(tmp_path, "echo 'libpython is missing' >&2; exit 4")
    with pytest.raises(StartError, match=r"this machine: \S+ ended with 4: libpython is missing\."):
        start_local_python(broken)


def test_one_that_is_not_there_leaves_no_file_open() -> None:
    before = set(os.listdir("/proc/self/fd"))
    # The error keeps alive what was being made.
    with pytest.raises(
        StartError, match=r"/no/python: No such file or directory\. Name a Python that is there"
    ) as error:
        start_local_python("/no/python")
    assert set(os.listdir("/proc/self/fd")) <= before, error.value


def test_one_that_ends_in_the_middle_is_told_with_its_last_words(tmp_path: Path) -> None:
    with (
        start_local_python(sys.executable) as here,
        pytest.raises(StartError, match=r"ended with 1: KeyError: 'token'\."),
    ):
        here.ask("mesh", {"work": "listen"})


AGENT = """
import json, os, subprocess, sys, time
assert sys.stdin.read() == "what to be"
while not os.path.exists({go!r}):
    time.sleep(0.02)
shown = open("/proc/self/cmdline").read().rstrip("\\0")
left = subprocess.Popen(["sleep", "1000"], stdin=-3, stdout=-3, stderr=-3).pid
files = os.listdir("/proc/self/fd")
print(json.dumps({"pid": left, "cwd": os.getcwd(), "shown": shown, "files": files}))
"""


@pytest.mark.parametrize("hung_up", [False, True])
def test_an_agent_that_nobody_waits_for_any_more_is_told_to_leave(
    tmp_path: Path, hung_up: bool
) -> None:
    (tmp_path / "agent.py").write_text(AGENT.replace("{go!r}", repr(str(tmp_path / "go"))))
    with (
        LocalProcess([sys.executable, "-c", BOOT], "it was asked") as process,
        HostPython("here", nullcontext(process), [sys.executable]) as here,
    ):
        here.tell(
            "start_agent",
            {"module": "agent", "arguments": [], "path": str(tmp_path), "stdin": "what to be"},
        )
        if hung_up:
            process.close_stdin()
        (tmp_path / "go").touch()
        done = here.answer(60)
    assert (done["code"], done["stderr"]) == (0, "")
    reply = json.loads(done["stdout"])
    assert (reply["cwd"], reply["shown"]) == ("/", f"{sys.executable} -m agent")
    assert (
        len(reply["files"]) == 4
    )  # its own three and the folder it looks into: the log-in can end
    if hung_up:
        wait_until(lambda: not _lives(reply["pid"]), what="its end")
    else:
        assert _lives(reply["pid"])
        os.kill(reply["pid"], signal.SIGKILL)


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [("sys.exit('no room')", 1, "no room\n"), ("sys.exit(3)", 3, ""), ("1 / 0", 1, "Zero")],
)
def test_what_ends_an_agent_at_its_start_is_heard(
    tmp_path: Path, line: str, code: int, said: str
) -> None:
    (tmp_path / "agent.py").write_text(f"import sys\n{line}\n")
    with start_local_python(sys.executable) as here:
        done = here.ask(
            "start_agent", {"module": "agent", "arguments": [], "path": str(tmp_path), "stdin": ""}
        )
    assert done["code"] == code
    assert said in done["stderr"]


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class _GoneAtOnce(HostCommand):
    """A process that has ended, with the code for `no Python`, before anything could be written to
    it."""

    def __init__(self) -> None:
        super().__init__("h", "it was told")
        self._take_in()

    def __exit__(self, *details: object) -> None:
        return None

    def write(self, data: bytes) -> None:
        raise HostError("h: it ended before it had read its input (Socket is closed).")

    def close_stdin(self) -> None:
        return None

    def _output(self) -> Iterator[bytes]:
        return iter(())

    def _exit_code(self) -> int:
        return 127


def test_a_process_that_ended_before_it_was_told_anything_says_why() -> None:
    with pytest.raises(HostError, match=r"h: no Python there \(tried /a, /b\)"):
        HostPython("h", _GoneAtOnce(), ["/a", "/b"])
