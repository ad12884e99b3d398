"""`psclust top`: its numbers, its table on narrow and wide terminals, and the command itself on a
live run."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from beds.command import CommandBed
from beds.terminal import Terminal
from psclust.cli.top_looks import looks
from psclust.cli.top_view import Row, curve, hottest, mean_loss, rows, view
from psclust.supervise.reading import Reading
from psclust.testing.wait import wait_until
from psclust.transport.gpu_usage import GpuReader, GpuUsage
from psclust.transport.task_usage import Usage, tcp_connections, usage


def reading(task: str, **known: object) -> Reading:
    return Reading(
        **{"task": task, "role": "program", "host": "a", "state": "running", "attempt": 1, **known}
    )  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("server_host", "client_host"),
    [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::", "127.0.0.1")],
)
def test_bytes_are_those_that_a_connection_moved(server_host: str, client_host: str) -> None:
    both = server_host == "::"
    family = socket.AF_INET6 if ":" in server_host else socket.AF_INET
    server = socket.create_server((server_host, 0), family=family, dualstack_ipv6=both)
    with server, socket.create_connection((client_host, server.getsockname()[1])) as client:
        accepted, _ = server.accept()
        with accepted:
            before = usage(os.getpid(), tcp_connections())
            client.sendall(b"x" * 300_000)
            got = 0
            while got < 300_000:
                got += len(accepted.recv(1 << 16))
            wait_until(
                lambda: usage(os.getpid(), tcp_connections()).rates(before, 2.0)[2] == 150_000,
                what="the acknowledgement",
            )
            _, received, sent = usage(os.getpid(), tcp_connections()).rates(before, 2.0)
    assert (received, sent) == (150_000, 150_000)


def test_bytes_are_unknown_not_zero_where_the_kernel_refuses_to_list_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "psclust.transport.task_usage._TCPDIAG_GETSOCK", 99
    )  # a request that no kernel knows
    assert tcp_connections() is None


def test_what_is_used_since_is_a_rate_and_a_closed_connection_takes_nothing_back() -> None:
    before = Usage(10.0, 5, {1: (100, 1000), 2: (5000, 5000)})
    now = Usage(12.0, 7, {1: (300, 1500), 3: (50, 60)})
    assert now.rates(before, 2.0) == (1.0, 280.0, 125.0)
    assert Usage(12.0).rates(before, 2.0) == (1.0, None, None)
    assert Reading.from_json(reading("w:0", usage=now).to_json()).usage == now


def test_rows_compare_the_same_attempt() -> None:
    old = [
        reading("ps:0", usage=Usage(1.0, 5)),
        reading("worker:0", usage=Usage(50.0, 5)),
        reading("worker:1"),
    ]
    now = [
        reading("ps:0", usage=Usage(2.0, 6)),
        reading("worker:0", attempt=2, usage=Usage(0.1, 7)),
        reading("worker:1"),
    ]
    found = rows(now, old, 2.0)
    assert [(row.cpu, row.memory) for row in found] == [(0.5, 6), (None, 7), (None, None)]


def test_the_hottest_ps_and_the_loss() -> None:
    found = [
        Row(reading("ps:0"), received=10.0, sent=20.0),
        Row(reading("ps:1"), received=5.0, sent=5.0),
        Row(reading("worker:0", loss=2.0)),
    ]
    assert hottest(found) == "ps:0 moves 75 % of the bytes of 2 ps"
    assert hottest(found[:1]) is None
    assert (mean_loss(found), mean_loss(found[:2])) == (2.0, None)
    assert curve([1.0, 0.5, 0.0], plain=True) == "@+_"
    assert curve([1.0], plain=False) == "▁"
    assert len(curve(list(range(100)), plain=False)) == 40


@pytest.mark.parametrize("width", [80, 200])
def test_a_line_for_each_task_fits(width: int) -> None:
    used = Usage(1.0, 5, {}, GpuUsage(15_000_000_000, 1.0))
    full = {
        "usage": used,
        "step": 123456,
        "examples_per_s": 123456.7,
        "loss": 0.1,
        "staleness": 12.3,
        "step_age_s": 3.2,
    }
    tasks = [
        Row(
            reading(f"worker:{i}", host="node01.example.com", **full),
            1.99,
            1_500_000_000,
            119.6e6,
            1e3,
        )
        for i in range(3)
    ]
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(view("digits", tasks, [2.0, 1.0], width=width, plain=False))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(lines) == 6
    expected = ["worker:0", "running", "199 %", "1.5 GB", "100 %", "119.6 MB", "123456"]
    assert all(word in lines[1] for word in [*expected, "123,457", "3 s"])
    assert ("node01" in lines[1], "12.3" in lines[1]) == (width == 200, width == 200)
    assert max(map(len, lines)) <= width


def test_gpus_are_shown_where_there_are_some() -> None:
    used = Usage(1.0, 5, {}, GpuUsage(1 << 30, 0.37))
    found = [
        Row(reading("worker:0", usage=used), 1.0, 5),
        Row(reading("ps:0", usage=Usage(1.0)), 1.0, 5),
    ]

    def shown(rows: list[Row], width: int) -> list[list[str]]:
        file = io.StringIO()
        console = Console(file=file, width=width, color_system=None)
        console.print(view("digits", rows, [], width=width, plain=False))
        return [line.split() for line in file.getvalue().splitlines()]

    header = "TASK STATE CPU MEMORY GPU IN/s OUT/s STEP EX/s LAST"
    assert " ".join(shown(found, 80)[0]) == header
    assert shown(found, 80)[1][4:8] == ["5", "B", "37", "%"]
    assert shown(found, 80)[2][6] == "-"
    assert " ".join(shown(found, 120)[1]).count("37 % 1.1 GB") == 1
    assert "GPU" not in shown(found[1:], 120)[0]
    assert found[0].to_dict()["gpu_memory_bytes"] == 1 << 30


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, {}),
        (
            {"gpu": "GPU-a, 37\n", "apps": "7, GPU-a, 1024\n8, GPU-a, [N/A]\n"},
            {7: GpuUsage(1 << 30, 0.37), 8: GpuUsage(None, 0.37)},
        ),
        (
            {"gpu": "GPU-a, [N/A]\nGPU-b, 90\n", "apps": "7, GPU-a, 1\n7, GPU-b, 2\n"},
            {7: GpuUsage(3 << 20, 0.9)},
        ),
        ({"gpu": "NVIDIA-SMI has failed\n", "apps": "7, GPU-a, 1\n", "code": 9}, {}),
        ({"gpu": "GPU-a, 5\n", "apps": "No running processes found\n"}, {}),
        ({"gpu": "GPU-a, 5\n", "apps": "The driver was lost, perhaps, or reset\n", "code": 15}, {}),
    ],
)
def test_nvidia_smi_is_read(
    said: dict[str, object],
    expected: dict[int, GpuUsage],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if said:
        fake = tmp_path / "nvidia-smi"
        fake.write_text(
            f"#!/bin/sh\ncase $1 in *gpu=*) printf '{said['gpu']}';; *) printf '{said['apps']}';; "
            f"esac\nexit {said.get('code', 0)}\n"
        )
        fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert GpuReader().processes() == expected


def test_nvidia_smi_is_not_asked_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "nvidia-smi"
    fake.write_text(f"#!/bin/sh\necho GPU-a, 5\necho asked >> {tmp_path}/calls\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    reader = GpuReader()
    for _ in range(5):
        reader.processes()
    assert (tmp_path / "calls").read_text().split() == ["asked"] * 2


BUSY = """
import os, time
print("up", flush=True)
while True:
    sum(range(10000))
"""


FILE = "jobs: {ps: 0, worker: 2}\nprogram: busy.py\npreload: false\nrole_by: none\n"


@pytest.mark.process
def test_a_live_run_is_shown_and_a_frozen_task_named(bed: CommandBed) -> None:
    bed.write("busy.py", BUSY)
    bed.write("psclust.yaml", FILE)
    bed.done("up", "-d")
    bed.signal("worker:1", signal.SIGSTOP)
    said = bed.done("top", "--json", "--interval", "0.5")
    first, second = json.loads(said)
    assert (first["task"], first["state"], second["state"]) == ("worker:0", "running", "frozen")
    assert first["cpu_cores"] > 0.02 > second["cpu_cores"]  # of a busy machine
    assert first["memory_bytes"] > 1_000_000
    assert first["received_bytes_per_s"] == first["sent_bytes_per_s"] == 0
    code, said = bed.run("top", "--once", "--interval", "0.5")
    assert (code, said.splitlines()[0].split()[:3], "\x1b" in said) == (
        0,
        ["TASK", "STATE", "CPU"],
        False,
    )
    terminal = Terminal(
        [*bed.command, "top", "-i", "0.5"],
        cwd=bed.folder,
        env=bed.environment({"TERM": "xterm"}),
        columns=120,
    )
    wait_until(lambda: terminal.written.count("worker:1") > 2, what="the table to be drawn again")
    bed.done("down")
    assert terminal.wait() == 0, terminal.written
    assert bed.run("top")[0] == 2


@pytest.mark.process
def test_up_shows_the_table_in_place_of_lines_and_then_the_end(bed: CommandBed) -> None:
    bed.write("busy.py", BUSY.replace("while True", "while not os.path.exists('finish')"))
    bed.write("psclust.yaml", FILE)
    terminal = Terminal(
        [*bed.command, "up", "--top"],
        cwd=bed.folder,
        env=bed.environment({"TERM": "xterm"}),
        columns=80,
    )
    wait_until(lambda: terminal.written.count("worker:1") > 2, what="the table to be drawn again")
    table = [line for line in terminal.screen if line.strip()]
    assert [line.split()[:2] for line in table if line.startswith("worker:")] == [
        ["worker:0", "running"],
        ["worker:1", "running"],
    ]
    assert table[-1].startswith(f"{bed.name}  worker 2/2")
    assert max(map(len, table)) < 80
    bed.write("finish", "")
    assert terminal.wait() == 0, terminal.written
    screen = "\n".join(terminal.screen)
    assert "ended well after" in screen
    assert "TASK" not in screen
    assert "worker:0 | up" not in terminal.written


@pytest.mark.process
def test_a_table_needs_a_terminal(bed: CommandBed) -> None:
    bed.write("busy.py", BUSY)
    for options in (["--top"], ["--top", "-d"]):
        code, said = bed.run("up", *options, "busy.py")
        assert (code, said.startswith("psclust: --top: "), said.count("\n")) == (2, True, 1), said
    assert bed.cluster().current() is None


def test_a_look_is_one_request() -> None:
    asked = []

    def read() -> list[Reading]:
        asked.append(len(asked))
        return [reading("worker:0")]

    found = looks(read, 2.0, sleep=lambda seconds: None)
    assert [len(next(found)) for _ in range(3)] == [1, 1, 1]
    assert len(asked) == 4


COUNTS = """
import os, sys, threading
from pathlib import Path
from psclust.rundir.folder import RunFolder
from psclust.transport.process_facts import Inspected, inspect_host
from psclust.transport.task_usage import family
from psclust.transport.gpu_usage import GpuReader
calls, gpus, folder = [], GpuReader(), RunFolder(Path("/nonexistent"))
COUNTED = ("open", "os.listdir", "subprocess.Popen", "socket.__new__", "os.posix_spawn")
def note(event, args):
    if counting and event in COUNTED:
        calls.append((event, str(args[0])))
counting = False
sys.addaudithook(note)
tasks = [Inspected(f"worker:{i}", "a", os.getpid(), False) for i in range(16)]
inspect_host(tasks, {}, folder, gpus.processes())
calls.clear()
counting = True
inspect_host(tasks, {}, folder, gpus.processes())
counting = False
started = [c for c in calls if c[0].startswith(("socket", "subprocess", "os.posix"))]
print(len([c for c in calls if "/proc/" in c[1]]) / 16, len(started))
"""


def test_a_look_at_a_task_reads_few_files_and_starts_no_program() -> None:
    """What `psclust top` costs a run: a bound on time would depend on the machine. Four files of
    /proc for each process, and its table of file descriptors; two files of /proc for the host's
    memory, and one netlink socket."""
    done = subprocess.run(
        [sys.executable, "-c", COUNTS],
        env={**os.environ, "PATH": "/nonexistent"},
        capture_output=True,
        text=True,
        check=True,
    )
    files, others = map(float, done.stdout.split())
    assert 4 <= files <= 5 + 2 / 16
    assert others == 1
