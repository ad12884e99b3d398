"""What a run was started from. Clusters are named after a file or folder, so two of one name may be
unrelated."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from psclust.rundir.atomic_file import write_atomically
from psclust.rundir.folder import RunFolder
from psclust.spec.typed_json import build, parse_json


@dataclass(frozen=True, slots=True)
class Origin:
    """The cluster file, if any, and the working folder of `up`; paths without symbolic links."""

    file: str | None
    folder: str

    @classmethod
    def of(cls, file: str | None, folder: str) -> Origin:
        return cls(
            os.path.realpath(os.path.join(folder, file)) if file is not None else None,
            os.path.realpath(folder),
        )

    def __str__(self) -> str:
        return self.file or self.folder

    def is_of(self, other: Origin) -> bool:
        """Whether both have the same file or, if one has none, the same folder."""
        if self.file is not None and other.file is not None:
            return self.file == other.file
        return self.folder == other.folder

    def write(self, run: RunFolder) -> None:
        """Raises OSError."""
        write_atomically(run.origin, json.dumps(asdict(self)))

    @classmethod
    def read(cls, run: RunFolder) -> Origin | None:
        """None if the run has no such record, as one of an older psclust."""
        try:
            return build(cls, parse_json(Path(run.origin).read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return None
