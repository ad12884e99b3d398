"""One live run of each name: a request starts it, or changes it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from psclust import __version__
from psclust.errors import NoRunError, StartError, UsageError
from psclust.launch.change_lock import changing_alone
from psclust.launch.cluster_copy import record_cluster
from psclust.launch.host_agents import other_hosts
from psclust.launch.start_run import claim_name, plan_run, record_plan_inputs
from psclust.launch.up_request import UpRequest
from psclust.plan.diff import Changes, compare, must_save
from psclust.plan.plan_inputs import RemoteHost
from psclust.rundir.folder import ClusterFolder, RunFolder
from psclust.rundir.origin import Origin
from psclust.rundir.status import RunStatus
from psclust.rundir.status_file import read_status
from psclust.supervise.replan import read_plan, read_plan_inputs

_HOSTS_UP_S = 600.0  # for hosts to be ready
_LIVE_RUN_S = 60.0  # for a run that is just ending, or just beginning
_POLL_S = 0.05


def claim_or_change(request: UpRequest) -> tuple[RunFolder, int] | Changes:
    """A new run's folder and its lock (`claim_name`), or, where a run of that name is live, how it
    is being changed. Raises StartError, UsageError."""
    patience_s = _LIVE_RUN_S + (_HOSTS_UP_S if other_hosts(request.file) else 0)
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        claimed = claim_name(request)
        if claimed is not None:
            return claimed
        # Of this very job, on a node that failed: the file system frees its lock some time later.
        changes = None if request.cluster.is_elsewhere() else _change(request)
        if changes is not None:
            return changes
        time.sleep(_POLL_S)
    raise StartError(
        f"{request.cluster.name}: another run is still beginning, or ending, "
        f"after {patience_s:g} s; see `psclust ps`."
    )


def _change(request: UpRequest) -> Changes | None:
    """None where there is no live run after all."""
    folder = request.cluster.current()
    if folder is None or not folder.socket.exists() or not folder.plan.exists():
        return None
    with changing_alone(folder), suppress(NoRunError):
        return _change_run(request, folder)
    return None


def _change_run(request: UpRequest, folder: RunFolder) -> Changes:
    from psclust.control.supervisor_client import SupervisorClient

    refuse_another_origin(request, folder)
    refuse_another_version(read_status(folder))
    old = read_plan(folder)
    inputs = read_plan_inputs(folder)
    remote_hosts = inputs.remote_hosts if inputs else {}
    if inputs:
        # A laptop that has moved meanwhile must not restart all servers.
        launcher = replace(request.launcher, addresses=inputs.launcher.addresses)
        request = replace(request, launcher=launcher)
    _refuse_other_hosts(request, remote_hosts)
    with SupervisorClient(folder) as client:
        plan = plan_run(request, folder, client, remote_hosts, old)
        changes = compare(old, plan)
        if changes:
            client.apply(plan, save=must_save(plan, changes))
            record_plan_inputs(request, folder, remote_hosts)
            record_cluster(request, folder)
    return changes


def refuse_another_origin(request: UpRequest, folder: RunFolder) -> None:
    """Raises UsageError where the live run was started from another cluster file or folder, and
    only its name is the same."""
    theirs = Origin.read(folder)
    if theirs is not None and not theirs.is_of(request.origin):
        name = request.cluster.name
        raise UsageError(
            f"{name} is up already, started from {theirs}, and this is another cluster of "
            f"that name ({request.origin}). Give this one a name of its own (psclust up --name "
            f"{_free_name(request.cluster)} ...), or end that one first (psclust down {name})."
        )


def refuse_another_version(status: RunStatus) -> None:
    """Plans are written for the version that carries them out. Raises UsageError."""
    if status.psclust != __version__:
        raise UsageError(
            f"{status.name} is up, started by psclust {status.psclust or 'of another version'}, "
            f"and this is {__version__}: change it with that one, "
            f"or end it first (psclust down {status.name})."
        )


def _refuse_other_hosts(request: UpRequest, remote_hosts: Mapping[str, RemoteHost]) -> None:
    """`remote_hosts`: those with an agent of the run."""
    wanted = {host.name for host in request.layout.hosts.values()}
    missing = (
        wanted - remote_hosts.keys()
        if remote_hosts
        else wanted & {host.name for host in other_hosts(request.file)}
    )
    if missing:
        name, there = request.cluster.name, ", ".join(remote_hosts) or "this machine alone"
        raise UsageError(
            f"hosts: {', '.join(sorted(missing))}: {name} is up, on {there}. Hosts join a live run "
            f"by psclust scale -H +HOST; or end it first (psclust down {name}), or give this one "
            "another --name."
        )


def _free_name(cluster: ClusterFolder) -> str:
    number = 2
    while cluster.path.with_name(f"{cluster.name}-{number}").exists():
        number += 1
    return f"{cluster.name}-{number}"
