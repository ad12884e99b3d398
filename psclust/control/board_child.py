"""The TensorBoard of a run, as a child of its supervisor: it ends with the run and never ends
it."""

from __future__ import annotations

import os
import select
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

_STOP_S = 5.0


@dataclass(frozen=True, slots=True)
class BoardCommand:
    """address: where it will listen. log_dir: whose event files it shows. log: for its output."""

    argv: tuple[str, ...]
    address: str
    log_dir: str
    log: Path

    def start(
        self, environ: Mapping[str, str], parent: int | None = None
    ) -> subprocess.Popen[bytes]:
        """parent: the process with which it ends; None: it stays. It has no use for GPUs."""
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*self.argv, *([str(parent)] if parent is not None else [])],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=parent is None,
                env={**environ, "CUDA_VISIBLE_DEVICES": ""},
            )


def start_board(
    command: BoardCommand, environ: Mapping[str, str], note: Callable[[str], None]
) -> Callable[[], None]:
    """Returns what ends it. note: for a line to the user, should it end earlier. Call it on a
    thread that lives as long as the run: the kernel ends the child with the thread that started
    it."""
    process = command.start(environ, os.getpid())
    # The supervisor reaps all its children, so that nothing else can wait for this one.
    ended = os.pidfd_open(process.pid)
    stopping = threading.Event()

    def watch() -> None:
        select.select([ended], [], [])
        if not stopping.is_set():
            note(f"TensorBoard has ended, the run goes on; its log: {command.log}")

    def stop() -> None:
        stopping.set()
        if not select.select([ended], [], [], 0)[0]:
            process.terminate()
            select.select([ended], [], [], _STOP_S)

    threading.Thread(target=watch, name="tensorboard", daemon=True).start()
    return stop
