"""Starting the run of a request: its name and folder, its hosts, its plan."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from psclust.errors import StartError
from psclust.launch.cluster_copy import record_cluster
from psclust.launch.earlier_agents import end_earlier_agents
from psclust.launch.held_run import HeldRun
from psclust.launch.host_agents import other_hosts, start_host_agents
from psclust.launch.job_runs import job_folder
from psclust.launch.missing_hosts import MissingHosts
from psclust.launch.status_stream import StatusStream
from psclust.launch.up_request import UpRequest
from psclust.plan.build_plan import Run, build_plan
from psclust.plan.plan_inputs import RemoteHost
from psclust.plan.task_environment import planned_with
from psclust.plan.task_plan import Plan
from psclust.plan.variables_home import follow
from psclust.reach.connections import Connections
from psclust.reach.made_hosts import make_hosts, remove_hosts
from psclust.reach.ways import batch_of
from psclust.rundir.batch_job import BatchJob
from psclust.rundir.folder import RunFolder
from psclust.rundir.old_runs import prune_beyond_limit
from psclust.rundir.origin import Origin
from psclust.spec.cluster import Host
from psclust.spec.cluster_file import ClusterFile
from psclust.supervise.replan import write_plan_inputs

if TYPE_CHECKING:
    from psclust.control.supervisor_client import SupervisorClient


def claim_name(request: UpRequest) -> tuple[RunFolder, int] | None:
    """A new run's folder, and the lock that makes it the live run of its name; None while another
    one is live. Raises StartError where the folder cannot be made, UsageError where the name
    belongs to a batch job that is queued or runs elsewhere."""
    system = batch_of(request.file.reach_by)
    job = system.own_job(os.environ) if system else None
    try:
        queued = job_folder(request, job)
        lock = request.cluster.lock()
        if lock is None:
            return None
        folder = queued or _new_run(request, job)
        record_cluster(request, folder)
        if job is not None:
            BatchJob(job, socket.gethostname()).write(folder.job)
        prune_beyond_limit(request.cluster.path.parent)
    except OSError as error:
        place = error.filename or request.cluster.path
        raise StartError(
            f"{place}: {error.strerror}; runs are kept there. Choose another place with --run-dir."
        ) from None
    return folder, lock


def _new_run(request: UpRequest, job: str | None) -> RunFolder:
    """Of a job that was started again, with the origin of its last run."""
    last = request.cluster.current()
    folder = request.cluster.new_run(job=BatchJob(job) if job is not None else None)
    origin = Origin.read(last) if last is not None and last.shares_job(folder) else None
    (origin or request.origin).write(folder)
    return folder


def start_run(
    run: HeldRun,
    request: UpRequest,
    log_in: Callable[[ClusterFile, Sequence[Host]], AbstractContextManager[Connections]],
    say: Callable[[str], None],
) -> tuple[Plan, StatusStream]:
    """Start agents on the hosts, plan the run and have the supervisor start it. `log_in` is called
    if there are other hosts; `say` gets lines for the user. Raises StartError, UsageError,
    NoRunError; call it in `run.ended_on_failure()`."""
    run.wait_for_supervisor()
    statuses = StatusStream(run.client.watch())
    remote_hosts: Mapping[str, RemoteHost] = {}
    # Dead, as their name is ours.
    earlier = [each for each in request.cluster.runs() if each.id != run.folder.id]
    end_earlier_agents(request.cluster, earlier, say)
    hosts = other_hosts(request.file)
    if hosts:
        for each in earlier:
            remove_hosts(each)
        make_hosts(run.folder, request.file, say)
        missing = MissingHosts(request.file)
        with log_in(request.file, hosts) as connections:
            remote_hosts = start_host_agents(
                request, run.folder, run.client, connections, say, missing
            )
        missing.tell(say)
        request = replace(request, layout=missing.layout() or request.layout)
    plan = plan_run(request, run.folder, run.client, remote_hosts)
    for note in plan.notes:
        say(f"psclust: {note}")
    if run.board is not None:
        say(f"psclust: TensorBoard: http://{run.board.address} (of {run.board.log_dir})")
    if remote_hosts:  # the supervisor needs it as soon as it loses a host
        record_plan_inputs(request, run.folder, remote_hosts)
    run.client.apply(plan)
    if not remote_hosts:
        # Tasks start meanwhile. A full disk costs `psclust scale`, and not the run.
        with suppress(StartError):
            record_plan_inputs(request, run.folder, remote_hosts)
    return plan, statuses


def plan_run(
    request: UpRequest,
    folder: RunFolder,
    client: SupervisorClient,
    remote_hosts: Mapping[str, RemoteHost],
    live: Plan | None = None,
) -> Plan:
    """The plan, with ports reserved on the hosts. live: the plan of a run that is to be changed,
    whose tasks stay where they are."""
    inputs = request.inputs(remote_hosts)
    if live is None:
        layout = inputs.reached(request.layout)
    else:
        layout = inputs.lay_out(live.lost, live.hosts)
    ports = client.reserve(layout.port_requests(request.file.ports))
    plan = build_plan(inputs, layout, Run.of(folder), ports)
    return plan if live is None else follow(live, plan)


def record_plan_inputs(
    request: UpRequest, folder: RunFolder, remote_hosts: Mapping[str, RemoteHost]
) -> None:
    """What a plan with other counts, or without one of these hosts, is made of. Raises
    StartError."""
    launcher = replace(request.launcher, environ=planned_with(request.launcher.environ))
    write_plan_inputs(folder, replace(request.inputs(remote_hosts), launcher=launcher))
