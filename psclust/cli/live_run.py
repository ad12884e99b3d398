"""Which requests may change a live run."""

from __future__ import annotations

from psclust import __version__
from psclust.errors import UsageError
from psclust.launch.up_request import UpRequest
from psclust.rundir.folder import ClusterFolder, RunFolder
from psclust.rundir.origin import Origin
from psclust.rundir.status import RunStatus


def refuse_another_origin(request: UpRequest, folder: RunFolder) -> None:
    """Raises UsageError where the live run was started from another cluster file or folder, and only its name is the same."""
    theirs = Origin.read(folder)
    if theirs is not None and not theirs.is_of(request.origin):
        name = request.cluster.name
        raise UsageError(
            f"{name} is up already, started from {theirs}, and this is another cluster of that name ({request.origin}). "
            f"Give this one a name of its own (psclust up --name {_free_name(request.cluster)} ...), or end that one first "
            f"(psclust down {name})."
        )


def refuse_another_version(status: RunStatus) -> None:
    """Raises UsageError: plans are written for the version that carries them out."""
    if status.psclust != __version__:
        raise UsageError(
            f"{status.name} is up, started by psclust {status.psclust or 'of another version'}, and this is {__version__}: change it with "
            f"that one, or end it first (psclust down {status.name})."
        )


def _free_name(cluster: ClusterFolder) -> str:
    number = 2
    while cluster.path.with_name(f"{cluster.name}-{number}").exists():
        number += 1
    return f"{cluster.name}-{number}"
