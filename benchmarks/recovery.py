"""Seconds from the SIGKILL of a task to the next step of the training: the digits with 2 ps and 2
workers, each kind of task in each way to train.

    python benchmarks/recovery.py [--times 20] [--only async sync in-graph]

The next step is the first of the killed program's new attempt, or, if a server is killed, the first
of the first client after it has lost the server. It is found in the client's log, where every step
is a line. `events.jsonl` says when the supervisor noticed the death, decided to start the task
again (back-off), had a process (fork) and, of a server, saw it answer (serve). The rest is the
client's: of a new program its graph, which takes most of it, and its session; of others the session
and the checkpoint that is restored. Medians, on an otherwise idle machine.
"""

from __future__ import annotations

import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rows
import runs

from psclust.rundir.folder import RunFolder
from psclust.spec.cluster import Task

WAYS: Mapping[str, Sequence[str]] = {
    "async": ["--replication", "between-graph", "--async"],
    "sync": ["--replication", "between-graph", "--sync"],
    "in-graph": ["--replication", "in-graph", "--sync"],
}
VICTIMS: Mapping[str, Sequence[str]] = {
    "async": ["worker:1", "worker:0", "ps:0"],
    "sync": ["worker:1", "worker:0", "ps:0"],
    "in-graph": ["worker:0", "client:0", "ps:0"],
}
PARTS = ("notice", "back-off", "fork", "serve", "rest")
_PROGRAM = ("psclust.examples.digits:program", "--log-seconds", "0.001", "--set", "epochs=100000")
_STEP = re.compile(rb"\bstep \d+ loss")
_LOST = re.compile(rb"lost a server")
_DEADLINE_S = 120.0
_TRAINED = 100  # steps of each client before the kill


@dataclass(frozen=True)
class Recovery:
    """seconds: of all. parts: of them, by name."""

    seconds: float
    parts: Mapping[str, float]


def main() -> None:
    parser = runs.parser(__doc__, rounds=None)
    parser.add_argument("--times", type=int, default=20, help="kills of each kind (20)")
    parser.add_argument("--only", nargs="*", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--victims", nargs="*", help="only these tasks, such as ps:0")
    options = parser.parse_args()
    print(f"{'way':<9} {'killed':<9} {'seconds':>7}  " + " ".join(f"{part:>8}" for part in PARTS))
    found = []
    for way in options.only:
        for victim in VICTIMS[way]:
            if options.victims and victim not in options.victims:
                continue
            each = [recovery(way, victim) for _ in range(options.times)]
            show(way, victim, each)
            found.append(rows.Row("recovery", way, victim, "s", [one.seconds for one in each]))
    rows.write(options.json, found)


def show(way: str, victim: str, each: Sequence[Recovery]) -> None:
    parts = [statistics.median(one.parts.get(part, 0.0) for one in each) for part in PARTS]
    print(
        f"{way:<9} {victim:<9} {statistics.median(one.seconds for one in each):>7.2f}  "
        + " ".join(f"{part:>8.2f}" for part in parts),
        flush=True,
    )


def recovery(way: str, victim: str) -> Recovery:
    """Trains, kills the victim, and waits for the next step."""
    with tempfile.TemporaryDirectory() as state:
        up = subprocess.Popen(
            runs.up(state, 2, 2, *WAYS[way], *_PROGRAM),
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
            stdout=subprocess.DEVNULL,
        )
        try:
            folder = Path(state) / "bench" / "current"
            clients = ["client:0"] if way == "in-graph" else ["worker:0", "worker:1"]
            for client in clients:
                trained = log(folder, client, 1)
                until(lambda path=trained: steps(path) >= _TRAINED, up)
            return _killed(folder, victim, clients, up)
        finally:
            up.send_signal(signal.SIGINT)
            up.wait()


def _killed(
    folder: Path, victim: str, clients: Sequence[str], up: subprocess.Popen[bytes]
) -> Recovery:
    pid = next(event["pid"] for event in events(folder) if is_of(event, "process", victim, 1))
    program = victim in clients
    watched = log(folder, victim, 2) if program else log(folder, clients[0], 1)
    before = 0 if program else watched.stat().st_size
    killed, clock = time.time(), time.monotonic()
    os.kill(pid, signal.SIGKILL)
    if not program:
        until(lambda: matches(watched, _LOST, before), up)
        before += max(found.end() for found in _LOST.finditer(read(watched, before)))
    until(lambda: matches(watched, _STEP, before), up)
    seconds = time.monotonic() - clock
    return Recovery(seconds, dict(_parts(events(folder), victim, killed, seconds)))


def _parts(
    found: Sequence[Mapping[str, Any]], victim: str, killed: float, seconds: float
) -> Iterator[tuple[str, float]]:
    """How long each part took, as far as events tell."""
    at = killed
    for part, kind, attempt in (
        ("notice", "exit", 1),
        ("back-off", "start", 2),
        ("fork", "process", 2),
        ("serve", "serving", 2),
    ):
        for event in found:
            if is_of(event, kind, victim, attempt):
                yield part, event["time"] - at
                at = event["time"]
    yield "rest", killed + seconds - at


def is_of(event: Mapping[str, Any], kind: str, task: str, attempt: int) -> bool:
    return event["kind"] == kind and event.get("task") == task and event.get("attempt") == attempt


def events(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "events.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def log(folder: Path, task: str, attempt: int) -> Path:
    return RunFolder(folder).log(Task.parse(task), attempt)


def read(path: Path, start: int = 0) -> bytes:
    """The bytes of a log from `start` on; none if there is no such file yet."""
    try:
        with open(path, "rb") as file:
            file.seek(start)
            return file.read()
    except FileNotFoundError:
        return b""


def steps(path: Path) -> int:
    return len(_STEP.findall(read(path)))


def matches(path: Path, pattern: re.Pattern[bytes], start: int = 0) -> bool:
    return pattern.search(read(path, start)) is not None


def until(condition: Any, up: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _DEADLINE_S
    while not condition():
        if up.poll() is not None or time.monotonic() > end:
            sys.exit("psclust up: no such step within two minutes, or it has ended")
        time.sleep(0.005)


if __name__ == "__main__":
    main()
