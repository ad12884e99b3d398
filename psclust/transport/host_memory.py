"""The memory of this machine, as far as the control group of this process may have it: how much is
left, and whom the kernel killed because none was."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# The first process id namespace of a machine, whose ids its kernel's log has.
_FIRST_PIDS = "pid:[4026531836]"
_RECENT_S = 30.0
_KILLED = re.compile(
    r"^\d+,\d+,(?P<us>\d+),[^;]*;.*Killed process (?P<pid>\d+) .*?anon-rss:(?P<kb>\d+)kB"
)
_KILLS = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
_AVAILABLE = re.compile(r"^MemAvailable: +(\d+) kB$", re.MULTILINE)
# What the kernel drops before it kills, in memory.stat.
_FILES = re.compile(r"^(?:total_)?inactive_file (\d+)$", re.MULTILINE)

# Of version 2 and of version 1, which has a number where there is no limit.
_FILES_OF_LIMITS = (
    ("memory.max", "memory.current"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
)
_NO_LIMIT = 1 << 62


class MemoryKills:
    """Notices out-of-memory kills from its creation on, in the control group of this process, which
    tasks share with it."""

    def __init__(self, groups: Path = Path("/sys/fs/cgroup"), log: Path = Path("/dev/kmsg")):
        self._groups = groups
        self._log = log
        self._count = _kills(groups)

    def evidence(self, pid: int, code: int) -> str | None:
        """That the kernel has just killed the process `pid`, which ended with `code`, as a clause;
        None: no sign of it."""
        if code not in (-signal.SIGKILL, 128 + signal.SIGKILL):
            return None
        before, self._count = self._count, _kills(self._groups)
        kb = next((kb for other, kb in self._logged() if other == pid), None)
        if kb is not None:
            return f"the kernel's log names process {pid}, with {kb / 1e6:.1f} GB"
        if before is not None and self._count is not None and self._count > before:
            return "its control group counts an out-of-memory kill"
        return None

    def _logged(self) -> Iterator[tuple[int, int]]:
        """(pid, kB) of the last seconds' kills."""
        now = time.clock_gettime(time.CLOCK_MONOTONIC)
        with suppress(OSError):  # may not be read, or is at its end
            if os.readlink("/proc/self/ns/pid") != _FIRST_PIDS:
                return
            descriptor = os.open(self._log, os.O_RDONLY | os.O_NONBLOCK)
            with open(descriptor, "rb", buffering=0) as log:
                while record := log.read(1 << 13):
                    found = _KILLED.match(record.decode("utf-8", "replace"))
                    if found and now - int(found["us"]) / 1e6 < _RECENT_S:
                        yield int(found["pid"]), int(found["kb"])


def memory_left(groups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes that this process may still take: what the machine has, or less if the control group or
    one above it has a limit. None: unknown."""
    left = [int(kb) << 10 for kb in _AVAILABLE.findall(_read(Path("/proc/meminfo")))]
    for group in _memory_groups(groups):
        for limit, used in _FILES_OF_LIMITS:
            text = _read(group / limit) if (group / limit).exists() else ""
            if text.strip().isdigit() and int(text) < _NO_LIMIT:
                files = sum(map(int, _FILES.findall(_read(group / "memory.stat"))[-1:]))
                left.append(int(text) - int(_read(group / used) or 0) + files)
    return max(0, min(left)) if left else None


def _kills(groups: Path) -> int | None:
    """Out-of-memory kills so far in the control group; of the machine where it counts none."""
    own = next(_memory_groups(groups), groups)
    for path in (own / "memory.events", own / "memory.oom_control", Path("/proc/vmstat")):
        found = _KILLS.findall(_read(path))
        if found:
            return int(found[0])
    return None


def _memory_groups(groups: Path) -> Iterator[Path]:
    """The control group of this process, then those above it, of version 1 or 2."""
    for line in _read(Path("/proc/self/cgroup")).splitlines():
        _, controllers, name = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top = groups / "memory" if controllers else groups
        own = top / name.lstrip("/")
        for folder in (own, *own.parents):
            if (folder / "memory.stat").exists():
                yield folder
            if folder == top:
                break


def _read(path: Path) -> str:
    """Its text, "" if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
