"""Whether another policy would place the variables of a live run otherwise."""

from __future__ import annotations

import os
from dataclasses import replace

from psclust.errors import UsageError
from psclust.launch.live_change import LiveRun, request_of
from psclust.launch.program_variables import PlannedPlacement, planned_placement
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.jobs import PS


def why_alike(run: LiveRun, file: ClusterFile) -> str | None:
    """Why every variable stays on its ps with this file, as a clause; None if some do not, or if
    that is not known here."""
    if file.placement.policy == run.file.placement.policy:
        return f"its placement is {file.placement.policy} already"
    if file.jobs[PS].count == 1:
        return "its one ps holds every variable"
    try:
        now, then = (_placed(run, each) for each in (run.file, file))
    except UsageError:
        return None
    if now is None or then is None or now.table.rows != then.table.rows:
        return None
    return f"{file.placement.policy} places every variable where it is"


def _placed(run: LiveRun, file: ClusterFile) -> PlannedPlacement | None:
    """With this machine's environment, in which the program is built."""
    request = request_of(run, file)
    here = replace(request.launcher, environ=dict(os.environ))
    return planned_placement(replace(request, launcher=here), run.plan)
