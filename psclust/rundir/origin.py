"""What a run was started from. Clusters are named after a file or a folder, so two of one name may have nothing else in common."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from psclust.rundir.atomic_file import write_atomically
from psclust.rundir.folder import RunFolder


@dataclass(frozen=True, slots=True)
class Origin:
    """The cluster file, if there was one, and the folder in which `up` was called; paths without symbolic links."""

    file: str | None
    folder: str

    @classmethod
    def of(cls, file: str | None, folder: str) -> Origin:
        return cls(os.path.realpath(os.path.join(folder, file)) if file is not None else None, os.path.realpath(folder))

    def __str__(self) -> str:
        return self.file or self.folder

    def is_of(self, other: Origin) -> bool:
        """Whether both are of the same file; where one has no file, of the same folder."""
        if self.file is not None and other.file is not None:
            return self.file == other.file
        return self.folder == other.folder

    def write(self, run: RunFolder) -> None:
        """Raises OSError."""
        write_atomically(run.origin, json.dumps(asdict(self)))

    @classmethod
    def read(cls, run: RunFolder) -> Origin | None:
        """None for a run that does not say, such as one of an older psclust."""
        try:
            data = json.loads(Path(run.origin).read_text(encoding="utf-8"))
            return cls(data["file"], data["folder"])
        except (OSError, ValueError, KeyError):
            return None
