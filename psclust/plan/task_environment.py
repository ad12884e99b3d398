"""The environment of a task: what keeps TensorFlow's servers from hanging, from listening everywhere and from taking a GPU they do not
need. Every default gives way to a value the user has set, in the cluster file or in the shell."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from psclust.placement.placement_settings import PlacementSettings
from psclust.rundir.folder import RunFolder
from psclust.spec.cluster import ClusterSpec, Task
from psclust.spec.env_file import parse_env_file

if TYPE_CHECKING:
    from psclust.spec.cluster_file import ClusterFile, Placement

# http_proxy never captures traffic between tasks. A peer that was dialled before it listened is dialled again soon: until then, for a
# second by default, every call to it fails at once. No keepalive: a TensorFlow server accepts one ping in five minutes during a quiet call
# and closes the connection at the third that comes sooner. The shim's socket options notice a lost peer instead.
GRPC_OPTIONS = "grpc.enable_http_proxy=0,grpc.initial_reconnect_backoff_ms=100,grpc.max_reconnect_backoff_ms=200"

# Names that would tell a task of another cluster than its own.
FOREIGN = ("TF_CONFIG", "PSCLUST_*")

# What tells of this machine, its user or this terminal, and would be wrong on another.
_OWN = {"HOME", "HOSTNAME", "LANG", "LD_LIBRARY_PATH", "LD_PRELOAD", "LOGNAME", "MAIL", "OLDPWD", "PATH", "PWD", "SHELL", "SHLVL", "TERM"}
_OWN |= {"TMPDIR", "USER", "VIRTUAL_ENV", "_"}


def is_foreign(name: str) -> bool:
    return name == "TF_CONFIG" or name.startswith("PSCLUST_")


@dataclass(frozen=True, slots=True)
class HostEnvironment:
    """What the machine that starts the tasks is like: the calling environment, its folder, and the shim (None: could not be built)."""

    environ: Mapping[str, str]
    cwd: str
    python: str
    shim: str | None


def passed(environ: Mapping[str, str], patterns: Sequence[str], file_text: str | None, *, where: str = "env_file") -> dict[str, str]:
    """What tasks on another host get beside what the plan says: the variables of `environ` that `patterns` name (`HF_TOKEN`, `WANDB_*`),
    over those of an environment file. They may be secrets: never shown, never on a command line. A pattern never names what belongs to this
    machine or to another cluster; a whole name does the former. Raises ClusterFileError, with `where` and the line, for a bad file."""
    found = parse_env_file(file_text, where=where) if file_text is not None else {}
    for name, value in environ.items():
        by_pattern = any(fnmatchcase(name, pattern) for pattern in patterns) and not _is_of_this_machine(name)
        if (by_pattern or name in patterns) and not is_foreign(name):
            found[name] = value
    return found


def _is_of_this_machine(name: str) -> bool:
    return name in _OWN or name.startswith(("SSH_", "XDG_", "LC_"))


def render_cluster(cluster: ClusterSpec) -> str:
    return json.dumps(cluster.as_dict(), separators=(",", ":"))


def placement_settings(placement: Placement) -> PlacementSettings:
    """What the cluster file says of placement, as tasks read it in PSCLUST_PLACEMENT."""
    return PlacementSettings(placement.policy, placement.pin, placement.max_shard_bytes)


def pace_environment(file: ClusterFile) -> dict[str, str]:
    """What a psclust program is told of waiting for others, where the file says anything of it."""
    backups = {"PSCLUST_BACKUP_WORKERS": str(file.backup_workers)} if file.backup_workers else {}
    return backups | ({} if file.max_staleness is None else {"PSCLUST_MAX_STALENESS": str(file.max_staleness)})


def peer_timeout(lease_s: float) -> dict[str, str]:
    """Twice the lease where that is longer than the shim's minute: a cut shorter than the lease ends no connection between tasks."""
    return {"PSCLUST_PEER_TIMEOUT": str(min(math.ceil(2 * lease_s), 36_000))} if lease_s > 30 else {}


def library_environment(here: HostEnvironment) -> dict[str, str]:
    """What every task and every fork server gets, unless the calling environment has it already."""
    defaults = {
        "TF_GRPC_REUSE_PORT": "1",  # the port is reserved by a socket that psclust holds
        "TF_GRPC_DEFAULT_OPTIONS": GRPC_OPTIONS,
        "TF_GRPC_WORKER_CACHE_QUEUES": "4",  # 64 by default, a thread each
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "PYTHONUNBUFFERED": "1",
    }
    env = {name: value for name, value in defaults.items() if name not in here.environ}
    if here.shim is not None:
        env["LD_PRELOAD"] = ":".join(filter(None, (here.shim, here.environ.get("LD_PRELOAD"))))
    return env


def task_environment(
    here: HostEnvironment, cluster: ClusterSpec, task: Task, *, run_id: str, run_dir: str, host: str | None, gpus: range | None
) -> dict[str, str]:
    """The environment psclust adds for one task. `host` is the IPv4 address its servers listen on; `gpus` the device numbers it sees, None
    to leave the calling environment's choice."""
    env = library_environment(here) | {
        "PSCLUST_RUN": run_id,
        "PSCLUST_RUN_DIR": run_dir,
        "PSCLUST_TASK": str(task),
        "PSCLUST_CLUSTER": render_cluster(cluster),
        "PSCLUST_PROGRESS": str(RunFolder(Path(run_dir)).progress(task)),
    }
    if host is not None:
        env["PSCLUST_BIND"] = host
    if gpus is not None:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus))
    return env
