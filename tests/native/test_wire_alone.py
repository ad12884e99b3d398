"""The wire's C without TensorFlow, under sanitizers: hostile frames, and threads."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

import psclust
from psclust.agent.access import server_name
from psclust.control.certificates import Authority
from psclust.forward.forwarder_process import ForwarderProcess, find_tensorflow
from psclust.forward.route import Route
from psclust.transport.server_shim import tls_library

pytestmark = pytest.mark.process

NATIVE = Path(psclust.__file__).parent / "native"
SOURCES = [
    Path(__file__).with_name("wire_alone.c"),
    *(
        NATIVE / f"{name}.c"
        for name in (
            "wire",
            "connection",
            "messages",
            "cancelled",
            "channel",
            "forwarded",
            "tls",
            "variables",
        )
    ),
]
MOST_HELD_BYTES = 1 << 26
MOST_HELD, MOST_ALIKE = 1 << 17, 1024  # as in messages.c
MEMORY, THREADS = "address,undefined", "thread"


def _compile(sanitizers: str, program: Path, sources: Sequence[Path]) -> str:
    """What the compiler says against it."""
    command = ["gcc", "-g", "-O1", "-pthread", f"-I{NATIVE}", "-Wall", "-Wextra", "-Werror"]
    command += [f"-DMOST_HELD_BYTES={MOST_HELD_BYTES}"]
    command += [f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all", "-o", str(program)]
    done = subprocess.run([*command, *map(str, sources)], capture_output=True, text=True)
    return done.stderr


def _program(folder: Path, sanitizers: str) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler: install gcc")
    program, empty = folder / "wire_alone", folder / "empty.c"
    if _compile(sanitizers, program, SOURCES):
        empty.write_text("int main(void) { return 0; }\n")
        if _compile(sanitizers, folder / "empty", [empty]):
            pytest.skip(f"gcc has no library for -fsanitize={sanitizers}")
        pytest.fail(_compile(sanitizers, program, SOURCES))
    return program


def _run(program: Path, *arguments: str) -> list[int]:
    """The numbers that it prints."""
    done = subprocess.run(
        [program, *arguments],
        env={**os.environ, "ASAN_OPTIONS": "detect_leaks=1", "TSAN_OPTIONS": "halt_on_error=1"},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split() if word.isdigit()]


@pytest.mark.parametrize("count", [3000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_frames_that_are_spoilt_do_no_harm(tmp_path: Path, count: int) -> None:
    frames, connections, came, failed = _run(_program(tmp_path, MEMORY), "frames", str(count), "1")
    assert frames == count
    assert connections > count / 20
    assert came > count / 3
    assert failed > 0


@pytest.mark.parametrize(
    ("size", "labels", "most"),
    [
        (1 << 20, 1 << 40, MOST_HELD_BYTES >> 20),
        (0, 1 << 40, MOST_HELD),
        (0, 1, MOST_ALIKE),
    ],
)
def test_a_task_that_sends_what_nobody_asks_for_is_cut_off(
    tmp_path: Path, size: int, labels: int, most: int
) -> None:
    program = _program(tmp_path, MEMORY)
    unasked, asked, came = _run(program, "unasked", str(size), str(labels))
    # By then the sender has more on its way, as much as its kernel holds of it.
    assert most <= unasked < most + (20 if size else 100_000)
    assert came == asked == 100


def test_what_waits_in_a_run_that_was_cancelled_elsewhere_fails_and_others_are_told(
    tmp_path: Path,
) -> None:
    assert _run(_program(tmp_path, MEMORY), "cancelled") == [1, 4]


@pytest.mark.parametrize(
    ("sanitizers", "seconds"),
    [
        (MEMORY, 3),
        pytest.param(MEMORY, 30, marks=pytest.mark.long),
        pytest.param(THREADS, 30, marks=pytest.mark.long),
    ],
)
def test_tasks_that_do_so_under_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sanitizers: str, seconds: int
) -> None:
    program, library = _program(tmp_path, sanitizers), find_tensorflow()
    if library is None:
        pytest.skip("no TensorFlow")
    forwarder = ForwarderProcess(Authority("run").forwarder("h1"), tls_library(), 30.0, "auto")
    try:
        address = f"127.0.0.1:{forwarder.port}"
        forwarder.forward([Route(1, server_name("h1"), address, listens=False)])
        for name, value in forwarder.environ.items():
            monkeypatch.setenv(name, value)
        steps, came, _ = _run(program, "threads", str(seconds), str(forwarder.port), str(library))
    finally:
        forwarder.close()
    assert steps > 100
    assert came > steps


@pytest.mark.long
@pytest.mark.parametrize("sanitizers", [MEMORY, THREADS])
def test_tasks_that_send_and_receive_while_connections_end(tmp_path: Path, sanitizers: str) -> None:
    steps, came, failed = _run(_program(tmp_path, sanitizers), "threads", "30")
    assert steps > 1000
    assert came > steps
    assert failed > 0
