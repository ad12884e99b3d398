"""What a process on this machine does: its state for the kernel, and where its Python threads
are."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from psclust.rundir.folder import RunFolder
from psclust.spec.cluster import Task
from psclust.transport.dumped_stacks import dumped_stacks
from psclust.transport.gpu_usage import GpuUsage
from psclust.transport.host_memory import memory_left
from psclust.transport.process_stat import START_TICKS, STATE, TICKS_A_SECOND, stat_fields
from psclust.transport.strangers import Strangers, read_strangers
from psclust.transport.task_usage import Usage, family, tcp_connections, usage

_LARGEST_SOURCE = 1 << 20  # bytes
_LONGEST_LINE = 60
_PY_SPY_S = 10.0
_AT_ONCE = 16
_STOPPED = ("T", "t")
_INSTALLED = re.compile(
    r"^<|/(?:site|dist)-packages/|/lib/python3[^/]*/"
)  # whose source says nothing about a program


@dataclass(frozen=True, slots=True)
class Frame:
    """A place in Python code. text: the line's source, where it was looked up."""

    function: str
    file: str
    line: int
    text: str | None = None

    def __str__(self) -> str:
        return f"{self.function} ({self.file}:{self.line})"


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """state: the letter of /proc/PID/stat, None without a process. threads: of its Python or of a
    Python below it, the main thread first, each from the innermost frame outwards. names: of the
    threads; empty if not known. no_stack: why there are no threads, as a clause. usage: of it and
    its descendants. strangers: whose connections its server has closed."""

    state: str | None = None
    threads: tuple[tuple[Frame, ...], ...] = ()
    no_stack: str | None = None
    usage: Usage = field(default_factory=Usage)
    names: tuple[str, ...] = ()
    strangers: Strangers = field(default_factory=Strangers)

    @property
    def is_frozen(self) -> bool:
        """Whether a signal or a debugger has stopped it."""
        return self.state in _STOPPED

    @property
    def main_thread(self) -> tuple[Frame, ...]:
        return self.threads[0] if self.threads else ()


@dataclass(frozen=True, slots=True)
class HostFacts:
    """One look at a host. processes: by task. refusing: addresses of servers that accept no
    connection from there."""

    processes: Mapping[str, ProcessFacts] = field(default_factory=dict)
    refusing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Inspected:
    """A process to look at. stacks: whether at its Python threads too."""

    task: str
    host: str
    pid: int
    stacks: bool


# What processes of tasks do, and which addresses of servers accept no connection from their hosts;
# by host, without hosts that do not answer. May take seconds.
Inspector = Callable[[Collection[Inspected], Collection[str]], Mapping[str, HostFacts]]


def inspect_host(
    processes: Collection[Inspected],
    ways: Mapping[str, str],
    folder: RunFolder,
    gpus: Mapping[int, GpuUsage] | None = None,
) -> HostFacts:
    """The facts of this machine. ways: addresses of servers, and where a connection to each goes,
    which is tried. folder: the run's here. gpus: of `GpuReader`."""
    connections, left = tcp_connections(), memory_left()
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        found = pool.map(
            lambda each: replace(
                process_facts(each.pid, stacks=each.stacks),
                usage=usage(each.pid, connections, gpus, left),
                strangers=read_strangers(folder.strangers(Task.parse(each.task))),
            ),
            processes,
        )
        accepted = pool.map(accepts, ways.values())
        facts = {each.task: fact for each, fact in zip(processes, found, strict=True)}
        return HostFacts(
            facts,
            tuple(address for address, yes in zip(ways, accepted, strict=True) if not yes),
        )


def accepts(address: str, timeout_s: float = 2.0) -> bool:
    """Whether a server at host:port accepts connections from this machine."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=timeout_s):
            return True
    except OSError:
        return False


def process_facts(pid: int, *, stacks: bool) -> ProcessFacts:
    """stacks: whether to look for Python threads."""
    state = process_state(pid)
    if state is None or not stacks:
        return ProcessFacts(state)
    found = _spied(pid)
    if isinstance(found, str) and state not in _STOPPED:
        # py-spy is missing or may not look: ask the program itself.
        found = next(
            (_Threads(each, dumped) for each in family(pid) if (dumped := _dumped(each))), found
        )
    if isinstance(found, str):
        return ProcessFacts(state, no_stack=found)
    main = (
        tuple(_with_text(found.pid, frame) for frame in found.threads[0]) if found.threads else ()
    )
    return ProcessFacts(state, (main, *found.threads[1:]), names=found.names)


@dataclass(frozen=True, slots=True)
class _Threads:
    """Of a process, as `ProcessFacts` has them."""

    pid: int
    threads: tuple[tuple[Frame, ...], ...]
    names: tuple[str, ...] = ()


def _dumped(pid: int) -> tuple[tuple[Frame, ...], ...]:
    return tuple(tuple(Frame(*frame) for frame in stack) for stack in dumped_stacks(pid))


def _with_text(pid: int, frame: Frame) -> Frame:
    return (
        frame
        if _INSTALLED.search(frame.file)
        else replace(frame, text=source_line(pid, frame.file, frame.line))
    )


def _spied(pid: int) -> _Threads | str:
    """Of the first Python of a family; the reason if there are none."""
    program = _py_spy()
    if program is None:
        return f"py-spy is not installed beside {sys.executable}: pip install py-spy"
    threads: _Threads | str = "no Python"
    for each in family(pid):
        threads = _python_threads(program, each)
        if not isinstance(threads, str):
            break
    return threads


def process_state(pid: int) -> str | None:
    try:
        return stat_fields(pid)[STATE]
    except OSError:
        return None


def _py_spy() -> str | None:
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")


def _python_threads(program: str, pid: int) -> _Threads | str:
    """The reason if there are none. The process is not stopped meanwhile."""
    try:
        done = subprocess.run(
            [program, "dump", "--nonblocking", "--json", "--pid", str(pid)],
            capture_output=True,
            timeout=_PY_SPY_S,
        )
        # By the output: the exit code is lost where the supervisor's reaper was sooner.
        threads = json.loads(done.stdout) if done.stdout else None
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        return f"py-spy: {error}"
    if threads is None:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        return lines[0] if lines else "py-spy failed"
    threads.sort(key=lambda thread: thread["os_thread_id"] != pid)
    frames = tuple(
        tuple(Frame(each["name"], each["filename"], each["line"]) for each in thread["frames"])
        for thread in threads
    )
    return _Threads(pid, frames, tuple(thread["thread_name"] or "" for thread in threads))


def source_line(pid: int, file: str, line: int) -> str | None:
    """The line of a process's source, without its indentation, cut where it is long; None where it
    cannot be known. A relative path begins in the working folder of the process."""
    path = Path(f"/proc/{pid}/cwd") / file
    try:
        found = path.stat()
        if found.st_size > _LARGEST_SOURCE or found.st_mtime > _began(pid):
            return None
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError, IndexError, StopIteration):
        return None
    text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return (text if len(text) <= _LONGEST_LINE else f"{text[: _LONGEST_LINE - 3]}...") or None


def _began(pid: int) -> float:
    """When a process began, in seconds since the epoch."""
    boot = next(
        line
        for line in Path("/proc/stat").read_text(encoding="utf-8").splitlines()
        if line.startswith("btime ")
    )
    return int(boot.split()[1]) + int(stat_fields(pid)[START_TICKS]) / TICKS_A_SECOND
