"""Steps the wall clock of single hosts, for the processes that are started with `environment`:
`clock.c`, preloaded. The machine's own clock stays as it is."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path

_SOURCE = Path(__file__).with_name("clock.c")
_WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Werror")


class Clocks:
    """The clocks of `hosts`, by their own names, in a folder that all of them see. Compiles the
    library. Raises FileNotFoundError without a compiler."""

    def __init__(self, folder: Path, hosts: Iterable[str]) -> None:
        self._folder, self._hosts = folder, tuple(hosts)
        folder.mkdir()
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise FileNotFoundError("clock.c needs a C compiler; as root: apt-get install gcc")
        command = [compiler, "-O2", "-shared", "-fPIC", *_WARNINGS, "-o", str(library(folder))]
        subprocess.run([*command, str(_SOURCE), "-ldl"], check=True)

    def start(self) -> None:
        """For processes that begin from now on: clocks that are right, and can be stepped."""
        for host in self._hosts:
            (self._folder / host).write_bytes(struct.pack("q", 0))

    def stop(self) -> None:
        """Processes that begin from now on use the machine's clock."""
        for host in self._hosts:
            (self._folder / host).unlink(missing_ok=True)

    def step(self, by_s: float, host: str | None = None) -> None:
        """Set the clock of a host, or of all, to so much before or after the right time."""
        for name in self._hosts if host is None else (host,):
            file = os.open(self._folder / name, os.O_WRONLY)
            os.write(file, struct.pack("q", int(by_s * 1e9)))
            os.close(file)


def library(folder: Path) -> Path:
    return folder / "clock.so"


def environment(folder: Path) -> dict[str, str]:
    """Of the processes whose clock is that of `Clocks(folder)`, which may be made later."""
    before = os.environ.get("LD_PRELOAD")
    preload = f"{before}:{library(folder)}" if before else str(library(folder))
    return {"LD_PRELOAD": preload, "CHAOS_CLOCK": str(folder)}
