"""Event files of TensorBoard on a host, read from where an earlier look ended."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from pathlib import Path

from psclust.agent import agent_pb2 as pb

_CHUNK = 1 << 18
_LOOK_S = 1.0


class EventFiles:
    """offsets: bytes read of each file, by its path below its folder."""

    def __init__(self, offsets: dict[str, int]) -> None:
        self._offsets = offsets
        self._looked = float("-inf")

    def updates(self, folders: Collection[str], *, at_once: bool) -> Iterator[pb.Update]:
        """What was appended since the last look; at most one look a second, but `at_once`."""
        if not folders or (time.monotonic() - self._looked < _LOOK_S and not at_once):
            return
        self._looked = time.monotonic()
        for folder in map(Path, folders):
            for path in sorted(folder.rglob("*tfevents*")):
                yield from self._appended(path, path.relative_to(folder).as_posix())

    def _appended(self, path: Path, name: str) -> Iterator[pb.Update]:
        offset = self._offsets.get(name, 0)
        try:
            if not path.is_file() or path.stat().st_size <= offset:
                return
            with path.open("rb") as file:
                file.seek(offset)
                while data := file.read(_CHUNK):
                    yield pb.Update(event_file=pb.EventFile(path=name, offset=offset, data=data))
                    offset += len(data)
                    self._offsets[name] = offset
        except OSError:
            return  # removed meanwhile
