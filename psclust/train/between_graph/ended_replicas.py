"""The chief's record of the replicas that have ended their training, and whose steps a checkpoint
has. It outlives lost sessions, lost ps tasks and the chief.

A worker that has ended exits and never reports it again; without the record, a restarted chief
would wait for it for ever. The record is a file beside the checkpoints and belongs to one run: the
next run with the same model trains all replicas again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from psclust.rundir.atomic_file import write_atomically
from psclust.spec.typed_json import build, parse_json

LOG = logging.getLogger(__name__)


class EndedReplicas:
    """A set of replica numbers, kept in the JSON file at `path`. run: the run's id; None keeps
    nothing on disk."""

    def __init__(self, path: Path, run: str | None) -> None:
        self._path = path
        self._run = run
        self.numbers: frozenset[int] = frozenset(_read(path, run) if run else ())

    def become(self, numbers: Iterable[int]) -> None:
        """Records these and no others."""
        before, self.numbers = self.numbers, frozenset(numbers)
        if self._run is None or self.numbers == before:
            return
        try:
            write_atomically(
                self._path, json.dumps({"run": self._run, "replicas": sorted(self.numbers)})
            )
        except OSError as error:
            LOG.warning(
                "%s cannot be written (%s); a chief that restarts may wait a minute longer",
                self._path,
                error,
            )


@dataclass(frozen=True)
class _Record:
    run: str
    replicas: tuple[int, ...]


def _read(path: Path, run: str) -> Sequence[int]:
    try:
        found = build(_Record, parse_json(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return ()
    return found.replicas if found.run == run else ()
