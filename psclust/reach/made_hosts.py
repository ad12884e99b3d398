"""The hosts that a run has had made for it, recorded in its folder before they exist: whatever
happens to the launcher, they can be removed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from psclust.errors import DamagedFileError
from psclust.reach.host_maker import Say
from psclust.reach.ways import host_maker
from psclust.rundir.atomic_file import write_required
from psclust.rundir.folder import RunFolder
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.key_types import ReachBy
from psclust.spec.typed_json import build, parse_json


@dataclass(frozen=True, slots=True)
class _MadeHosts:
    """place: where they are, as `HostMaker.location` has it."""

    reach_by: ReachBy
    cluster: str
    place: Mapping[str, Any]


def make_hosts(folder: RunFolder, file: ClusterFile, say: Say) -> None:
    """If the file's way makes its hosts: see `HostMaker.make`. Raises UsageError, StartError."""
    maker = host_maker(file.reach_by)
    if maker is None:
        return
    location = maker.location(file)
    record = _MadeHosts(file.reach_by, file.name, dict(location))
    write_required(folder.made_hosts, json.dumps(asdict(record)))
    maker.make(file, folder.id, location, say)


def remove_hosts(folder: RunFolder) -> int:
    """The hosts that were made for a run that has ended, and their record; returns how many there
    were. Raises UsageError, StartError; the record then stays, for another try."""
    try:
        record = build(_MadeHosts, parse_json(folder.made_hosts.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return 0
    except (OSError, ValueError) as error:
        raise DamagedFileError(
            folder.made_hosts,
            error,
            f"It records hosts that were made for the run {folder.id}: remove it once they are "
            "gone.",
        ) from None
    maker = host_maker(record.reach_by)
    count = maker.remove(record.cluster, folder.id, record.place) if maker else 0
    folder.made_hosts.unlink(missing_ok=True)
    return count
