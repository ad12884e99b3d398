"""What processes on this machine use of its GPUs, by nvidia-smi: a host may have no Python package
but TensorFlow."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

_QUERY_S = 5.0
_REUSED_S = 5.0  # a call takes up to a tenth of a second of CPU
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class GpuUsage:
    """memory: bytes on all GPUs. busy: how much of the last moment the busiest of these GPUs was at
    work, 0 to 1, for whatever process. None: the driver does not report it."""

    memory: int | None = None
    busy: float | None = None

    def plus(self, other: GpuUsage) -> GpuUsage:
        """With a further GPU or process."""
        memory = (
            None
            if self.memory is None and other.memory is None
            else (self.memory or 0) + (other.memory or 0)
        )
        known = [busy for busy in (self.busy, other.busy) if busy is not None]
        return GpuUsage(memory, max(known, default=None))


class GpuReader:
    """Asks nvidia-smi, at most every few seconds. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = float("-inf")
        self._found: Mapping[int, GpuUsage] = {}

    def processes(self) -> Mapping[int, GpuUsage]:
        """pid -> what it uses; empty on a machine without nvidia-smi, or whose driver does not
        answer."""
        program = shutil.which("nvidia-smi")
        if program is None:
            return {}
        with self._lock:
            if time.monotonic() - self._asked >= _REUSED_S:
                busy = {
                    uuid: _number(text)
                    for uuid, text in _rows(program, "--query-gpu=uuid,utilization.gpu", 2)
                }
                self._found = (
                    _by_process(
                        _rows(program, "--query-compute-apps=pid,gpu_uuid,used_memory", 3), busy
                    )
                    if busy
                    else {}
                )
                self._asked = time.monotonic()
            return self._found


def gpu_usage(processes: Mapping[int, GpuUsage], family: Iterable[int]) -> GpuUsage | None:
    """Of a process and its descendants; None if they use no GPU."""
    found = [processes[pid] for pid in family if pid in processes]
    return reduce(GpuUsage.plus, found) if found else None


def _by_process(
    rows: Iterable[Sequence[str]], busy: Mapping[str, float | None]
) -> Mapping[int, GpuUsage]:
    found: dict[int, GpuUsage] = {}
    for pid, uuid, memory in rows:
        if not pid.isdecimal():  # a message with commas
            continue
        mebibytes, percent = _number(memory), busy.get(uuid)
        one = GpuUsage(
            None if mebibytes is None else int(mebibytes * _MIB),
            None if percent is None else percent / 100,
        )
        found[int(pid)] = found[int(pid)].plus(one) if int(pid) in found else one
    return found


def _rows(program: str, query: str, columns: int) -> Iterator[list[str]]:
    try:
        done = subprocess.run(
            [program, query, "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=_QUERY_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    # Known from messages by their form: the exit code is lost where the supervisor's reaper was
    # sooner.
    for line in done.stdout.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == columns:
            yield cells


def _number(text: str) -> float | None:
    """`[N/A]`, `[Not Supported]` and the like are none."""
    try:
        return float(text)
    except ValueError:
        return None
