"""The parts that several benchmarks share: their options, the command that starts psclust, and the
steps that a training prints."""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

TRAINING = Path(__file__).parent / "training"
PSCLUST = (sys.executable, "-m", "psclust")
# Printed by the first client, about twice a second or every two seconds.
_STEP = re.compile(r"^(?:worker|client|chief):0 +\| .*?step (\d+)")


def parser(doc: str | None, *, rounds: int | None = 3) -> argparse.ArgumentParser:
    """A parser with the options of all benchmarks, `--rounds` (unless None) and `--json`, which
    `rows.write` takes. doc: the help text."""
    made = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if rounds is not None:
        made.add_argument("--rounds", type=int, default=rounds)
    made.add_argument("--json", type=Path, help="also write every number to this file")
    return made


def torch_on_hosts(text: str) -> str:
    """The value of `--torch`. Raises ArgumentTypeError if hosts cannot run it."""
    path = Path(text).absolute()
    if path.is_relative_to("/tmp"):
        raise argparse.ArgumentTypeError(
            f"{path}: every host has a /tmp of its own; install it elsewhere"
        )
    if not os.access(path, os.X_OK):
        raise argparse.ArgumentTypeError(f"{path}: there is no such program")
    return str(path)


def up(state: str, ps: int, workers: int, *more: str) -> list[str]:
    """The command line of `psclust up` on this machine. state: the folder of its runs."""
    size = ["--ps", str(ps), "--workers", str(workers)]
    return [*PSCLUST, "up", "--run-dir", state, "--name", "bench", *size, *more]


def start(
    command: Sequence[str], folder: Path, environ: Mapping[str, str]
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@contextmanager
def training(
    command: Sequence[str], folder: Path, environ: Mapping[str, str]
) -> Iterator[Iterator[tuple[float, int]]]:
    """Runs `psclust up`; yields when the first client reached which step."""
    process = start(command, folder, environ)
    try:
        yield steps(process)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()


def steps(process: subprocess.Popen[str]) -> Iterator[tuple[float, int]]:
    """(when, step) for each line of the first client that names a step."""
    assert process.stdout is not None
    said: list[str] = []
    for line in process.stdout:
        said.append(line)
        if found := _STEP.match(line):
            yield time.monotonic(), int(found[1])
    sys.exit("the training ended too soon:\n" + "".join(said))


def cpu(processes: Iterable[psutil.Process]) -> float:
    """CPU seconds of the processes, and of their children that have ended."""
    seconds = 0.0
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            seconds += sum(process.cpu_times()[:4])
    return seconds
