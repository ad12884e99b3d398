"""The environment variables of a task. They keep TensorFlow's servers from hanging, from listening
on every interface and from taking GPUs they do not need. A value that the user sets, in the cluster
file or in the shell, overrides each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from psclust.errors import UsageError
from psclust.placement.placement_settings import PlacementSettings
from psclust.rundir.folder import RunFolder
from psclust.spec.cluster import Task

if TYPE_CHECKING:
    from psclust.spec.cluster_file import ClusterFile, Placement

# No http_proxy between tasks. A short back-off: after a failed dial every call to that peer fails
# until the next one, by default for a second. No keepalive: during a quiet call a TensorFlow server
# accepts one ping in five minutes and closes the connection at the third early one. The shim's
# socket options detect a lost peer instead.
GRPC_OPTIONS = (
    "grpc.enable_http_proxy=0,"
    "grpc.initial_reconnect_backoff_ms=100,grpc.max_reconnect_backoff_ms=200"
)

# Variables that describe this machine, its user or this terminal, and are wrong on another host.
_OWN = {
    "HOME",
    "HOSTNAME",
    "LANG",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LOGNAME",
    "MAIL",
    "OLDPWD",
    "PATH",
    "PWD",
    "SHELL",
    "SHLVL",
    "TERM",
}
_OWN |= {"TMPDIR", "USER", "VIRTUAL_ENV", "_"}


def is_foreign(name: str) -> bool:
    """Whether the variable, if it is set before psclust starts a task, belongs to another
    cluster."""
    return name == "TF_CONFIG" or name.startswith("PSCLUST_")


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that tasks take over from the environment of psclust itself."""
    return {name: value for name, value in environ.items() if not is_foreign(name)}


@dataclass(frozen=True, slots=True)
class HostEnvironment:
    """What tasks inherit on a host: variables, working folder, interpreter, the shim (None: it
    could not be built), and how many cores they may use (None: unknown). addresses: of the host,
    loopback ones aside."""

    environ: Mapping[str, str]
    cwd: str
    python: str
    shim: str | None
    cores: int | None = None
    addresses: tuple[str, ...] = ()


# How many threads compute an op.
THREADS = "TF_NUM_INTRAOP_THREADS"


def share_of_host(here: HostEnvironment, tasks: int) -> dict[str, str]:
    """The variable with which each of so many `tasks` of a job, which compute at the same time, has
    its part of the cores; none if a task may have them all, as TensorFlow gives it, or if the
    calling environment sets it."""
    if tasks < 2 or here.cores is None or THREADS in here.environ:
        return {}
    return {THREADS: str(max(1, here.cores // tasks))}


def passed(
    environ: Mapping[str, str], patterns: Sequence[str], written: Mapping[str, str]
) -> dict[str, str]:
    """The variables that tasks on other hosts get besides those of the plan: those of `environ`
    that `patterns` select (`HF_TOKEN`, `WANDB_*`), over those `written` in an environment file.
    They may be secrets: never show them, never put them on a command line. Wildcards select no
    variable of this machine; none selects one of another cluster."""
    found = dict(written)
    for name, value in environ.items():
        by_pattern = any(fnmatchcase(name, pattern) for pattern in patterns)
        wanted = name in patterns or (by_pattern and not _is_of_this_machine(name))
        if wanted and not is_foreign(name):
            found[name] = value
    return found


def _is_of_this_machine(name: str) -> bool:
    return name in _OWN or name.startswith(("SSH_", "XDG_", "LC_"))


def placement_settings(placement: Placement) -> PlacementSettings:
    """The key `placement`, as tasks read it from PSCLUST_PLACEMENT."""
    return PlacementSettings(placement.policy, placement.pin, placement.max_shard_bytes)


def pace_environment(file: ClusterFile) -> dict[str, str]:
    """How far a psclust program waits for other workers, if the file sets it."""
    backups = {"PSCLUST_BACKUP_WORKERS": str(file.backup_workers)} if file.backup_workers else {}
    return backups | (
        {} if file.max_staleness is None else {"PSCLUST_MAX_STALENESS": str(file.max_staleness)}
    )


def peer_timeout(lease_s: float) -> dict[str, str]:
    """Twice a lease that is longer than half the shim's minute, so that a network failure shorter
    than the lease breaks no connection."""
    return (
        {"PSCLUST_PEER_TIMEOUT": str(min(math.ceil(2 * lease_s), 36_000))} if lease_s > 30 else {}
    )


def library_environment(here: HostEnvironment) -> dict[str, str]:
    """The variables of every task and every fork server, except those that the calling environment
    sets."""
    defaults = {
        "TF_GRPC_DEFAULT_OPTIONS": GRPC_OPTIONS,
        "TF_GRPC_WORKER_CACHE_QUEUES": "4",  # default: 64, a thread each
        # Memory of tensors is kept for the next step: malloc gives large ones back to the system,
        # which clears each page for the next tensor. The limit, by default 64 GB, is out of reach.
        "TF_CPU_ALLOCATOR_USE_BFC": "true",
        "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(16 << 20),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "PYTHONUNBUFFERED": "1",
    }
    env = {name: value for name, value in defaults.items() if name not in here.environ}
    if here.shim is not None:
        env["LD_PRELOAD"] = with_shim(here.shim, here.environ.get("LD_PRELOAD", ""))
    return env


def planned_with(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that planning depends on."""
    names = (
        "TF_CONFIG",
        "LD_PRELOAD",
        "CUDA_VISIBLE_DEVICES",
        THREADS,
        *library_environment(HostEnvironment({}, "", "", None)),
    )
    return {name: environ[name] for name in names if name in environ}


def with_shim(shim: str, preloaded: str) -> str:
    """LD_PRELOAD with the shim, behind the libraries of the user, some of which must come first
    (AddressSanitizer)."""
    return preloaded if shim in preloaded.split(":") else ":".join(filter(None, (preloaded, shim)))


def task_environment(
    here: HostEnvironment,
    cluster: str,
    task: Task,
    *,
    run_id: str,
    run_dir: str,
    address: str | None,
    admit: Sequence[str],
    gpus: range | None,
    allowed_gpus: str = "",
) -> dict[str, str]:
    """The environment psclust adds for one task. `cluster`: as JSON, the part that it knows;
    `address`: where its server listens; `admit`: of `psclust.plan.admitted`; `gpus`: the GPUs it
    sees, counted among `allowed_gpus`, which is CUDA_VISIBLE_DEVICES of its host; None to leave
    that as it is. Raises UsageError if there are not so many."""
    env = library_environment(here) | {
        "PSCLUST_RUN": run_id,
        "PSCLUST_RUN_DIR": run_dir,
        "PSCLUST_TASK": str(task),
        "PSCLUST_CLUSTER": cluster,
        "PSCLUST_PROGRESS": str(RunFolder(Path(run_dir)).progress(task)),
        "PSCLUST_ADMIT": ",".join(admit),
        "PSCLUST_STRANGERS": str(RunFolder(Path(run_dir)).strangers(task)),
    }
    if address is not None:
        env["PSCLUST_BIND"], _, env["PSCLUST_PORT"] = address.rpartition(":")
    if gpus is not None:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(devices(gpus, allowed_gpus, task))
    return env


def devices(gpus: range, allowed: str, task: Task) -> list[str]:
    """The GPUs in CUDA's words. A batch system allows a job some GPUs of a host by
    CUDA_VISIBLE_DEVICES: others belong to other jobs."""
    names = [device for device in allowed.split(",") if device]
    if not names:
        return [str(gpu) for gpu in gpus]
    if gpus.stop > len(names):
        raise UsageError(
            f"{task} is to see GPU {gpus.stop - 1} of its host, but CUDA_VISIBLE_DEVICES there has "
            f"{len(names)}: {allowed}. Ask for more GPUs, or lower `gpus`."
        )
    return names[gpus.start : gpus.stop]
