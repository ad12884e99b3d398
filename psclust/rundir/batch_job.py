"""Which batch job a run is in. Machines that share the run's folder learn from this record where
the run lives."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from psclust.rundir.atomic_file import write_atomically
from psclust.spec.typed_json import build, parse_json


@dataclass(frozen=True, slots=True)
class BatchJob:
    """id: as the batch system's commands take it, such as 123, or 123_0 for a task of an array.
    host: where its supervisor runs; None while the job is queued."""

    id: str
    host: str | None = None

    def write(self, path: Path) -> None:
        """Raises OSError."""
        write_atomically(path, json.dumps(asdict(self)))

    def write_first(self, path: Path) -> None:
        """Unless there is a record: the job may have started, and written its own. Raises
        OSError."""
        with suppress(FileExistsError), path.open("x", encoding="utf-8") as file:
            file.write(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> BatchJob | None:
        """None if the run is in no batch job."""
        try:
            return build(cls, parse_json(path.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return None
