"""The hosts that a run has had made for it, recorded in its folder before they exist: whatever
happens to the launcher, they can be removed."""

from __future__ import annotations

import json

from psclust.reach.host_maker import Say
from psclust.reach.ways import host_maker
from psclust.rundir.atomic_file import write_required
from psclust.rundir.folder import RunFolder
from psclust.spec.cluster_file import ClusterFile


def make_hosts(folder: RunFolder, file: ClusterFile, say: Say) -> None:
    """If the file's way makes its hosts: see `HostMaker.make`. Raises UsageError, StartError."""
    maker = host_maker(file.reach_by)
    if maker is None:
        return
    location = maker.location(file)
    record = {"reach_by": file.reach_by, "cluster": file.name, "place": dict(location)}
    write_required(folder.made_hosts, json.dumps(record))
    maker.make(file, folder.id, location, say)


def remove_hosts(folder: RunFolder) -> int:
    """The hosts that were made for a run that has ended, and their record; returns how many there
    were. Raises UsageError, StartError; the record then stays, for another try."""
    try:
        record = json.loads(folder.made_hosts.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return 0
    maker = host_maker(record["reach_by"])
    count = maker.remove(record["cluster"], folder.id, record["place"]) if maker else 0
    folder.made_hosts.unlink(missing_ok=True)
    return count
