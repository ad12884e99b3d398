"""File systems of their own for what a case fills: the runs' folder, the checkpoints, the home of
a host, where its agent keeps the run."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from beds.command import CommandBed
from faults.cases import Case, Hit
from faults.grounds import HOME, Ground

_STATE_BYTES, _MODEL_BYTES, _HOME_BYTES = 16 << 20, 64 << 20, 64 << 20


@contextmanager
def disks(case: Case, ground: Ground, bed: CommandBed, model: Path) -> Iterator[None]:
    """Mounted while the case runs."""
    filled = {hit.victim for hit in case.hits if hit.kind == "DISK"}
    places = {"state": (bed.state, _STATE_BYTES), "model": (model, _MODEL_BYTES)}
    mounted = [places[name] for name in places if name in filled and not _mounted(model, name)]
    hosts = [_host(victim) for victim in filled if _host(victim)]
    for folder, size in mounted:
        folder.mkdir(exist_ok=True)
        subprocess.run([*_mount(size), str(folder)], check=True)
    for host in hosts:
        ground.run(host, *_mount(_HOME_BYTES), HOME)
    try:
        yield
    finally:
        for folder, _ in mounted:
            subprocess.run(["umount", "--lazy", folder], check=False)
        for host in hosts:
            ground.run(host, "umount", "--lazy", HOME)


def fill(hit: Hit, ground: Ground, bed: CommandBed, model: Path) -> Callable[[], object]:
    """Returns what makes room again."""
    host = _host(hit.victim)
    if host:
        filler = f"{HOME}/filler"
        ground.run(host, "sh", "-c", f"cat /dev/zero > {filler}")
        return lambda: ground.run(host, "rm", "-f", filler)
    file = (bed.state if hit.victim == "state" else model) / "filler"
    with suppress(OSError), file.open("wb", buffering=0) as target:
        while True:
            target.write(b"x" * 4096)
    return lambda: file.unlink(missing_ok=True)


def _host(victim: str) -> str:
    return victim.partition("home of ")[2]


def _mounted(model: Path, name: str) -> bool:
    """On hosts, the checkpoints have a disk that all of them see."""
    return name == "model" and model.parent.is_mount()


def _mount(size: int) -> list[str]:
    return ["mount", "-t", "tmpfs", "-o", f"size={size}", "chaos"]
