"""Makes the faults of a case, each as early as its moment has come and its victim lives."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from beds.command import CommandBed, Running
from faults.cases import NAMES, SLURM, Case, Hit
from faults.disks import fill
from faults.grounds import Ground
from psclust.rundir.status import RunStatus, TaskStatus

_POLL_S = 0.005
_SIGNALS = {"KILL": signal.SIGKILL, "STOP": signal.SIGSTOP, "TERM": signal.SIGTERM}
_VERBS = {"KILL": "kill", "STOP": "freeze", "CUT": "cut", "SLOW": "slow"}
_RLIMITS = {
    "FILES": (psutil.RLIMIT_NOFILE, (8, 8)),
    "MEMORY": (psutil.RLIMIT_AS, (200_000_000, 200_000_000)),
}
_PRLIMIT = {"FILES": "--nofile=8:8", "MEMORY": "--as=200000000:200000000"}
_ALIVE = ("starting", "running")


@dataclass(frozen=True)
class Done:
    """hit: what was tried. how: what was done; None if it came too late, or hit nothing: then `why`
    says that. over: whether it was decided before how the run ends."""

    hit: Hit
    how: str | None
    over: bool = False
    why: str = "came too late"


class Hitter:
    """The faults of one run. Processes are continued again by threads, links by psclust."""

    def __init__(self, case: Case, ground: Ground, bed: CommandBed, up: Running, model: Path):
        self._case, self._ground, self._bed, self._up = case, ground, bed, up
        self._model = model
        self._began = time.monotonic()
        self._why = ""
        self._healers: list[threading.Thread] = []

    def run(self) -> list[Done]:
        """Returns when all faults are made, or the run has ended."""
        self._await_moment()
        done = []
        for hit in self._case.hits:
            time.sleep(hit.later_s)
            if self._ended():
                done.append(Done(hit, None))
                continue
            over = self._decided()
            self._why = "found nothing to hit"
            done.append(Done(hit, self._make(hit), over, self._why))
        return done

    def heal(self) -> None:
        """Wait until whatever lasts is over. Hosts must agree on the time to start a run."""
        for thread in self._healers:
            thread.join()
        if any(hit.victim.startswith("clock of ") for hit in self._case.hits):
            self._ground.clocks.step(0.0)

    # ---- when

    def _await_moment(self) -> None:
        case = self._case
        if case.moment == "start":
            self._until(lambda: time.monotonic() - self._began >= case.at)
            return
        self._until(lambda: self.step() >= case.at * case.steps)
        if case.moment == "checkpoint":
            seen = self._files()
            self._until(lambda: self._files() != seen or self.step() >= case.steps)

    def _until(self, condition: Callable[[], bool]) -> None:
        while not self._ended() and not condition():
            time.sleep(_POLL_S)

    def _ended(self) -> bool:
        return self._up.process.poll() is not None

    def step(self) -> int:
        """The newest that a task reports."""
        steps = [0]
        folder = self._bed.cluster().current()
        for file in folder.path.glob("progress/*.json") if folder else ():
            with suppress(OSError, ValueError, KeyError, TypeError):
                steps.append(int(json.loads(file.read_text())["step"]))
        return max(steps)

    def _files(self) -> frozenset[str]:
        with suppress(OSError):
            return frozenset(os.listdir(self._model))
        return frozenset()

    def _decided(self) -> bool:
        status = self._status()
        return status is not None and status.ok is not None

    def _status(self) -> RunStatus | None:
        folder = self._bed.cluster().current()
        with suppress(OSError, ValueError, KeyError):
            return RunStatus.from_json(folder.status.read_text()) if folder else None
        return None

    # ---- what

    def _make(self, hit: Hit) -> str | None:
        if hit.kind == "DISK":
            self._heal(hit, fill(hit, self._ground, self._bed, self._model))
            return "filled"
        if self._case.moment == "start":
            self._until(lambda: self._lives(hit))
            if self._ended():
                return None
        if hit.kind in ("TERM", "FILES", "MEMORY") and self._is_task(hit.victim):
            return self._by_pid(hit)
        if self._is_task(hit.victim) or (
            hit.victim in NAMES[self._case.place] and hit.kind in _VERBS
        ):
            return self._inject(hit)
        if hit.kind == "CLOCK":
            host = hit.victim.partition(" of ")[2]
            self._ground.clocks.step(hit.by_s, host or None)
            return f"stepped {host or 'all'}"
        return self._by_signal(hit)

    def _by_signal(self, hit: Hit) -> str | None:
        """Or by a limit, of processes that have no name in the run's status."""
        found = [process for process in self._processes(hit) if _send(process, hit.kind)]
        slurmd = hit.victim.partition("slurmd of ")[2]

        def heal() -> None:
            if slurmd:
                self._ground.revive(slurmd)
            for process in found:
                _send(process, "CONT")

        if hit.kind in _SIGNALS:
            self._heal(hit, heal)
        return f"{hit.kind} {[process.pid for process in found]}" if found else None

    def _is_task(self, victim: str) -> bool:
        return victim in self._case.tasks or victim == "supervisor"

    def _lives(self, hit: Hit) -> bool:
        """Whether there is something to hit, at the start."""
        if "log-in" in hit.victim:
            return bool(self._processes(hit))
        status = self._status()
        if status is None or not status.tasks:
            return False
        if hit.victim in self._case.tasks:
            task = _task(status, hit.victim)
            return task is not None and task.phase in _ALIVE and bool(task.pid)
        named = hit.victim == "supervisor" or hit.victim in NAMES[self._case.place]
        named |= hit.kind == "CLOCK"
        return named or bool(self._processes(hit))

    def _inject(self, hit: Hit) -> str | None:
        lasts = ["--for", str(hit.for_s)] if hit.for_s else []
        rate = ["--rate", "300"] if hit.kind == "SLOW" else []
        words = ["inject", _VERBS[hit.kind], hit.victim, *lasts, *rate, "--yes"]
        code, said = self._bed.run_here(*words)
        self._why = said.strip()
        if code:
            return None
        self._heal(hit, lambda: None)  # psclust does it
        return self._why

    def _by_pid(self, hit: Hit) -> str | None:
        status = self._status()
        if status is None:
            return None
        if hit.victim == "supervisor":
            host, pid = "", status.supervisor
        else:
            task = _task(status, hit.victim)
            if task is None or not task.pid or task.phase not in _ALIVE:
                return None
            host, pid = task.host, task.pid
        command = (
            ("kill", "-TERM", str(pid))
            if hit.kind == "TERM"
            else ("prlimit", "--pid", str(pid), _PRLIMIT[hit.kind])
        )
        if host in ("", "localhost"):
            Ground.run(self._ground, host, *command)
        else:
            self._ground.run(host, *command)
        return f"{' '.join(command)} on {host or 'this machine'}"

    def _processes(self, hit: Hit) -> list[psutil.Process]:
        """The victims of a signal."""
        what, _, host = hit.victim.partition(" of " if " of " in hit.victim else " to ")
        status = self._status()
        with suppress(psutil.Error):
            if what == "up":
                # In an allocation, `up` is a child of salloc.
                process = psutil.Process(self._up.process.pid)
                return [process if self._case.place != SLURM else process.children()[0]]
            if what == "guard" and status is not None:
                parent = psutil.Process(status.supervisor).parent()
                return [parent] if parent is not None else []
            if what == "fork server":
                return self._fork_servers(status)
            if what == "slurmd":
                return self._ground.daemons(host)
            there = self._ground.on_host(self._bed, host or hit.victim)
            if what == "forwarder":
                return [one for one in there if "psclust.forward" in " ".join(_words(one))]
            if what == "log-in":
                return [one for one in there if _is_login(one)]
            agents = [one for one in there if _is_agent(one)]
            if what == "agent and guard":
                return agents
            return agents[-1:]  # the agent is younger than its guard
        return []

    def _fork_servers(self, status: RunStatus | None) -> list[psutil.Process]:
        """One of them, on the first host that has any. Tasks that were forked look alike."""
        for host in NAMES[self._case.place]:
            tasks = {task.pid for task in status.tasks if task.host == host} if status else set()
            for process in self._ground.on_host(self._bed, host):
                if "--preload" in _words(process) and _own_pid(process) not in tasks:
                    return [process]
        return []

    def _heal(self, hit: Hit, work: Callable[[], object]) -> None:
        if hit.for_s:
            timer = threading.Timer(hit.for_s, work)
            timer.start()
            self._healers.append(timer)


def _send(process: psutil.Process, kind: str) -> bool:
    with suppress(psutil.Error):
        if kind in _RLIMITS:
            process.rlimit(*_RLIMITS[kind])
        else:
            process.send_signal(signal.SIGCONT if kind == "CONT" else _SIGNALS[kind])
        return True
    return False


def _task(status: RunStatus, name: str) -> TaskStatus | None:
    return next((task for task in status.tasks if task.task == name), None)


def _words(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):
        return list(process.cmdline())
    return []


def _own_pid(process: psutil.Process) -> int:
    """Its number on its host, which may have a space of its own."""
    with suppress(OSError):
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    return process.pid


def _is_agent(process: psutil.Process) -> bool:
    words = " ".join(_words(process))
    return "psclust.agent" in words or "sys.stdin.readline" in words


def _is_login(process: psutil.Process) -> bool:
    """A session of sshd, not the one that listens; or what srun runs."""
    words = " ".join(_words(process))
    return (words.startswith("sshd") and "-D" not in words) or "slurmstepd" in words
