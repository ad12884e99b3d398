"""Facts about a host and its Python, found without importing any package."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
import time
from contextlib import suppress
from importlib.machinery import PathFinder
from typing import Any, BinaryIO

# As in setup.py: the oldest that agents were tried with. TensorFlow accepts older ones.
GRPCIO = (1, 49)
_SOURCES = (".py", ".proto")


def answer(question: dict[str, Any], stream: BinaryIO) -> dict[str, Any]:
    """`question`: `package`, where the launcher has psclust, and its `digest`; `files`, paths with
    the microsecond of their last change there, which are `shared` where they are the same here;
    `connection_variables`: see `Way.CONNECTION_VARIABLE`.
    `times`: when this began and ended."""
    began = time.time()
    cache, state = cache_folder(), state_folder()
    connection = _connection(question["connection_variables"])
    return {
        "executable": sys.executable,
        "version": ".".join(map(str, sys.version_info[:3])),
        "tensorflow": version_of("tensorflow"),
        "missing": missing_requirements(),
        **_psclust(question["package"], question["digest"]),
        "machine": os.uname().machine,
        "home": os.path.expanduser("~"),
        "cache": cache,
        "state": state,
        "disks": _disks(state, cache),
        "memory_free": _memory("MemAvailable"),
        "memory": _memory("MemTotal"),
        "address": connection[2] if len(connection) == 4 else None,
        "shared": all(_changed(path) == when for path, when in question["files"].items()),
        "times": [began, time.time()],
    }


def _connection(variables: list[str]) -> list[str]:
    return next((os.environ[name].split() for name in variables if name in os.environ), [])


def cache_folder() -> str:
    """Where the store of shipped folders is."""
    return os.path.join(
        _xdg("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "psclust"
    )


def state_folder() -> str:
    """Where an agent keeps its runs."""
    home = _xdg("XDG_STATE_HOME") or os.path.join("~", ".local", "state")
    return os.path.abspath(
        os.path.expanduser(os.environ.get("PSCLUST_STATE") or os.path.join(home, "psclust"))
    )


def _xdg(variable: str) -> str | None:
    """None for a relative path, as the XDG Base Directory Specification says."""
    folder = os.environ.get(variable, "")
    return folder if os.path.isabs(folder) else None


def package_digest(folder: str) -> str:
    """Of a package's sources alone: what was compiled from them does not matter."""
    total = hashlib.sha256()
    for path in sorted(_sources(folder)):
        total.update(path.encode() + b"\0")
        with open(os.path.join(folder, path), "rb") as file:
            total.update(hashlib.sha256(file.read()).digest())
    return total.hexdigest()


def _sources(folder: str) -> list[str]:
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        found += [
            os.path.relpath(os.path.join(place, name), folder)
            for name in names
            if name.endswith(_SOURCES)
        ]
    return found


def missing_requirements() -> list[str]:
    """The requirements of an agent that this Python does not meet."""
    numbers = re.findall(r"\d+", version) if (version := version_of("grpc")) else None
    fits = numbers is not None and (not numbers or tuple(map(int, numbers)) >= GRPCIO)
    return [] if fits else ["grpcio>=" + ".".join(map(str, GRPCIO))]


def version_of(module: str) -> str | None:
    """The version of the distribution that brought a package, whatever its name is: from the name
    of its metadata folder. Importing importlib.metadata takes as long as all else here. None
    without the package."""
    spec = PathFinder.find_spec(module)
    if spec is None:
        return None
    place = os.path.dirname(next(iter(spec.submodule_search_locations or [""])))
    for name in sorted(os.listdir(place or ".")):
        match = re.fullmatch(r"[^-]+-(\d[^-]*)\.dist-info", name)
        if match and module in _packages(os.path.join(place, name)):
            return match[1]
    return "of unknown version"


def _packages(metadata: str) -> set[str]:
    """The packages that a distribution brought."""
    for name, first in (("top_level.txt", r"^(\S+)"), ("RECORD", r"^([^/,]+)/")):
        path = os.path.join(metadata, name)
        with suppress(OSError), open(path, encoding="utf-8") as file:
            return set(re.findall(first, file.read(), re.MULTILINE))
    return set()


def _psclust(package: str, digest: str) -> dict[str, Any]:
    """`psclust_version`: of the psclust that this Python imports. `psclust`: the folder to import
    the launcher's own version from; empty if this Python finds that by itself, None if it is not
    here."""
    spec = importlib.util.find_spec("psclust")
    own = os.path.dirname(spec.origin) if spec is not None and spec.origin else None
    found = None
    if own is not None and package_digest(own) == digest:
        found = ""
    elif os.path.isdir(package) and package_digest(package) == digest:
        found = os.path.dirname(package)
    return {"psclust_version": _version_in(own) if own else None, "psclust": found}


def _version_in(package: str) -> str | None:
    with open(os.path.join(package, "__init__.py"), encoding="utf-8") as file:
        match = re.search(r'^__version__ = "([^"]+)"', file.read(), re.MULTILINE)
    return match[1] if match else None


def _changed(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns // 1000
    except OSError:
        return None


def _disks(*folders: str) -> dict[str, int]:
    """Folder -> bytes free on its disk, for the first folder of each disk. A folder that does not
    exist yet is on its parent's disk."""
    found: dict[int, tuple[str, int]] = {}
    for folder in folders:
        there = folder
        while not os.path.exists(there):
            there = os.path.dirname(there)
        room = os.statvfs(there)
        found.setdefault(os.stat(there).st_dev, (folder, room.f_bavail * room.f_frsize))
    return dict(found.values())


def _memory(key: str) -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            match = re.search(rf"^{key}:\s+(\d+) kB", file.read(), re.MULTILINE)
    except OSError:
        return None
    return int(match[1]) * 1024 if match else None
