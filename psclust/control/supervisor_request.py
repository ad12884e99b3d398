"""What the process of a new supervisor gets from the `up` that starts it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from psclust.control.board_child import BoardCommand
from psclust.rundir.folder import RunFolder
from psclust.transport.fork_server_client import Load


@dataclass(frozen=True, slots=True)
class SupervisorRequest:
    """Settings of a new supervisor. warm: interpreter, preload and environment of the fork server
    to start at once. lock: the run's lock, held open. lease: read end of a pipe whose write end
    `psclust up` holds open until it ends. job_ports: set in a batch job: then SIGTERM lets programs
    save their work, as a batch system sends it to all processes of a job before it kills them, and
    other machines that share the run's folder reach the supervisor on one of these ports (a range,
    or auto). metrics: a listening socket for Prometheus. board: the run's TensorBoard."""

    folder: RunFolder
    name: str
    environ: Mapping[str, str]
    library_env: Mapping[str, str]
    warm: tuple[str, Load, Mapping[str, str]] | None
    lock: int
    lease: int
    job_ports: str | None = None
    metrics: int | None = None
    board: BoardCommand | None = None
