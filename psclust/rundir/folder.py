"""Every file name of a run, and the place of runs: `<state>/<cluster name>/<run id>/`. The
supervisor of the live run holds the lock beside them, so that liveness never depends on a pid. A
lock may not be seen from another machine that shares the folder: there a run of a batch job is live
until its end is recorded."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from psclust.rundir.batch_job import BatchJob
from psclust.spec.cluster import Task
from psclust.spec.typed_json import parse_json

KEPT_RUNS = 10  # of each cluster
ENDING_BYTES = 32768  # reserved on disk to record the end of a run even if the disk is full
_LONGEST_SOCKET = 100  # bytes; a Unix socket's address takes a few more


def state_root(environ: Mapping[str, str], given: str | None = None) -> Path:
    """The folder of all runs: `given` (--run-dir), else PSCLUST_STATE, else `psclust` in the XDG
    state directory."""
    chosen = given or environ.get("PSCLUST_STATE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    home = xdg_folder(environ, "XDG_STATE_HOME") or os.path.join(
        environ.get("HOME", "~"), ".local", "state"
    )
    return Path(home).expanduser().absolute() / "psclust"


def xdg_folder(environ: Mapping[str, str], variable: str) -> str | None:
    """None if unset or relative: the XDG Base Directory Specification says to ignore relative
    paths."""
    folder = environ.get(variable, "")
    return folder if os.path.isabs(folder) else None


class _Below:
    """A field of a folder: the path below it with this name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: RunFolder | ClusterFolder, owner: type) -> Path:
        return folder.path / self._name


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of one run. No other code builds these paths."""

    path: Path

    @property
    def id(self) -> str:
        return self.path.name

    plan = _Below("plan.json")
    status = _Below("status.json")
    # How the run ended, if the disk was too full for a last status; blank before.
    ending = _Below("ending.json")
    # The inputs of the plan, for a run on other hosts.
    plan_inputs = _Below("plan_inputs.json")
    # Locked by the command that gives the run another plan.
    change_lock = _Below("change.lock")
    # The cluster file or folder that the run was started from.
    origin = _Below("origin.json")
    # The batch job that the run is in, or waits for; its script, and what it has printed.
    job = _Below("job.json")
    job_script = _Below("job.sh")
    job_output = _Below("job.out")
    # The cluster file with the flags laid over it, as of the start, submission or last change.
    cluster_file = _Below("cluster.yaml")
    # Hosts that exist for this run alone: see `psclust.reach.made_hosts`.
    made_hosts = _Below("made_hosts.json")
    # See `psclust.rundir.agents_file`.
    agents = _Below("agents.json")
    # On a host: the processes of its agent.
    agent_process = _Below("agent_process.json")
    # How to reach the supervisor from another machine; contains a key.
    access = _Below("access.json")
    supervisor_log = _Below("supervisor.log")
    # What happened and what was decided, one JSON object a line.
    events = _Below("events.jsonl")
    # What the tasks used and how far they were, over time, one JSON object a line.
    samples = _Below("samples.jsonl")
    socket = _Below("control.sock")
    logs = _Below("logs")
    # Checkpoints of a psclust program that was given no other folder.
    model = _Below("model")
    # Event files of TensorBoard that have come from another host, and its output.
    summaries = _Below("summaries")
    board_log = _Below("tensorboard.log")

    def log(self, task: Task, attempt: int) -> Path:
        """stdout and stderr of one attempt, as one stream."""
        return self.logs / log_name(task, attempt)

    def progress(self, task: Task) -> Path:
        """Where the task's program reports its progress."""
        return self.path / "progress" / f"{task.job}-{task.index}.json"

    def strangers(self, task: Task) -> Path:
        """Where the server shim counts the connections that it closes."""
        return self.path / "strangers" / f"{task.job}-{task.index}"

    def shares_job(self, other: RunFolder) -> bool:
        """Whether both are of one batch job, whose script and output are in the folder of its first
        run."""
        job, another = BatchJob.read(self.job), BatchJob.read(other.job)
        return job is not None and another is not None and job.id == another.id

    def create(self) -> None:
        """Readable by the owner only: logs and environments may contain secrets."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path.mkdir(mode=0o700)
        for folder in (self.logs, self.path / "progress", self.path / "strangers"):
            folder.mkdir()
        self.ending.write_bytes(b" " * ENDING_BYTES)

    def socket_address(self) -> str:
        """The control socket's address for gRPC. A path too long for a socket is replaced by one
        through a file descriptor of the folder, which this process keeps open."""
        path = str(self.socket)
        if len(os.fsencode(path)) > _LONGEST_SOCKET:
            descriptor = os.open(self.path, os.O_PATH | os.O_CLOEXEC)
            path = f"/proc/{os.getpid()}/fd/{descriptor}/{self.socket.name}"
        return f"unix:{path}"


@dataclass(frozen=True, slots=True)
class ClusterFolder:
    """All runs of one cluster name."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    # What runs have left on other hosts, and how to reach those hosts; includes runs whose folders
    # are gone here.
    hosts = _Below("hosts.json")
    # Locked by the supervisor of the live run.
    lock_file = _Below("lock")

    def lock(self) -> int | None:
        """Lock the cluster for a new run; a file descriptor to keep open, or None if a run is
        live."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            descriptor = os.open(self.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            return self.lock()  # the folder was pruned meanwhile
        if not lock_if_free(descriptor):
            os.close(descriptor)
            return None
        if not _is_same(descriptor, self.lock_file):
            os.close(descriptor)
            return self.lock()  # the file was replaced meanwhile, and others would lock the new one
        return descriptor

    def is_live(self) -> bool:
        """Whether a run is live here, or in a batch job, queued ones included."""
        return self.is_locked() or self.is_elsewhere()

    def is_elsewhere(self) -> bool:
        """Whether the last run is that of a batch job, not on this machine, and no end of it is
        recorded."""
        folder = self.current()
        if (
            folder is None
            or (job := BatchJob.read(folder.job)) is None
            or job.host == socket.gethostname()
        ):
            return False
        return not any(_records_end(path) for path in (folder.status, folder.ending))

    def is_locked(self) -> bool:
        """Whether a supervisor is alive on this machine."""
        try:
            descriptor = os.open(self.lock_file, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            return not lock_if_free(descriptor)
        finally:
            os.close(descriptor)

    def new_run(self, *, run_id: str | None = None, job: BatchJob | None = None) -> RunFolder:
        """Create the folder of a new run and make it current. Requires the lock. run_id: later than
        all others of this cluster. job: the batch job that it is in. Raises OSError."""
        run = RunFolder(self.path / (run_id or self.next_id()))
        run.create()
        if job is not None:
            job.write(run.job)
        self.make_current(run)
        for old in self.runs()[:-KEPT_RUNS]:
            if not run.shares_job(old):
                shutil.rmtree(old.path, ignore_errors=True)
        return run

    def make_current(self, run: RunFolder) -> None:
        link = Path(tempfile.mktemp(prefix=".current-", dir=self.path))
        link.symlink_to(run.id)
        link.replace(self.path / "current")

    def next_id(self, now: int | None = None) -> str:
        """`now`: microseconds since the epoch. Ids sort in the order of the runs, even if the clock
        goes back."""
        now = time.time_ns() // 1000 if now is None else now
        stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now // 1_000_000))
        wanted = f"{stamp}-{now % 1_000_000:06d}{os.urandom(1).hex()}"
        last = max((run.id for run in self.runs()), default="")
        if wanted > last:
            return wanted
        head, _, count = last.rpartition("-")
        return f"{head}-{int(count[:6]) + 1:06d}{count[6:]}"

    def runs(self) -> list[RunFolder]:
        """Oldest first."""
        if not self.path.is_dir():
            return []
        return [
            RunFolder(entry)
            for entry in sorted(self.path.iterdir())
            if entry.is_dir() and not entry.is_symlink()
        ]

    def current(self) -> RunFolder | None:
        """The live run, or the last one."""
        link = self.path / "current"
        return RunFolder(link.resolve()) if link.exists() else None


def log_name(task: Task, attempt: int) -> str:
    return f"{task.job}-{task.index}.{attempt}.log"


def _records_end(path: Path) -> bool:
    try:
        found = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("phase") == "ended"


def lock_if_free(descriptor: int) -> bool:
    """Lock a file unless another process has locked it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def agent_folder(state: str, name: str, run: str, host: str) -> str:
    """The path of a run's folder on another host, below that host's `state`; hosts may share a
    home."""
    return os.path.join(state, "agents", name, run, host)


def clusters(root: Path) -> list[ClusterFolder]:
    """Every cluster that has had a run, sorted by name."""
    if not root.is_dir():
        return []
    return [
        ClusterFolder(entry) for entry in sorted(root.iterdir()) if (entry / "current").is_symlink()
    ]
