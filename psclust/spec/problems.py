"""Mistakes in a cluster file or its flags: what is wrong, on which line or in which flag, and a
collector that reports all together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from psclust.errors import ClusterFileError

# From the top of the file to a value: ("jobs", "worker", "addresses", 0).
KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """`text` states what was found and what to do. `reads` are the other values it depends on, with
    everything in them, or only with their keys if the last step is `*`; `line` overrides that of
    `path`."""

    path: KeyPath
    text: str
    reads: tuple[KeyPath, ...] = ()
    line: int | None = None

    def rests_on(self, doubtful: Iterable[KeyPath]) -> bool:
        """Whether a value that this depends on is itself a mistake, is part of one, or contains
        one."""
        return any(
            _within(self.path, wrong) or any(_touches(read, wrong) for read in self.reads)
            for wrong in doubtful
        )


@dataclass(frozen=True, slots=True)
class Origins:
    """The line of the file, or the flag, that set each value. A value in neither is a default."""

    file: str | None
    lines: Mapping[KeyPath, int]
    flags: Mapping[KeyPath, str]

    def where(self, path: KeyPath, line: int | None = None) -> str:
        """`cluster.yaml:9: jobs.worker.count`, or `--workers`."""
        set_by = self._set_by(path)
        if set_by in self.flags:
            return ": ".join(filter(None, (self.flags[set_by], show(path[len(set_by) :]))))
        line = line or self.lines.get(set_by)
        place = self.file if line is None or self.file is None else f"{self.file}:{line}"
        return ": ".join(filter(None, (place, show(path))))

    def sentences(self, problems: Iterable[Problem]) -> list[str]:
        """One line for each problem, flags first, then in the order of the file."""
        ordered = sorted(problems, key=self._position)
        return list(
            dict.fromkeys(
                printable(f"{self.where(problem.path, problem.line)}: {problem.text}")
                for problem in ordered
            )
        )

    def _set_by(self, path: KeyPath) -> KeyPath:
        """The innermost value around that at `path` with a flag or a line; empty if none has."""
        around = (path[:length] for length in range(len(path), 0, -1))
        return next((each for each in around if each in self.flags or each in self.lines), ())

    def _position(self, problem: Problem) -> int:
        """The line number; negative for flags, in the order in which they were given."""
        set_by = self._set_by(problem.path)
        if problem.line is None and set_by in self.flags:
            return list(self.flags).index(set_by) - len(self.flags)
        return problem.line or self.lines.get(set_by, 0)


class Mistakes:
    """Collects the mistakes of one cluster file, its flags and the files it names."""

    def __init__(self, origins: Origins, problems: Iterable[Problem]) -> None:
        self.origins = origins
        self._problems = list(problems)
        self._lines: list[tuple[KeyPath, str]] = []

    @property
    def paths(self) -> Sequence[KeyPath]:
        """The keys with a mistake, or that name a file with one: no other check can rely on their
        values."""
        return [*(problem.path for problem in self._problems), *(path for path, _ in self._lines)]

    def add(self, problems: Iterable[Problem]) -> None:
        self._problems += problems

    def add_lines(self, path: KeyPath, lines: Iterable[str]) -> None:
        """Mistakes in the file that the key at `path` names, each with its file and line."""
        self._lines += [(path, line) for line in lines]

    def add_founded(self, problems: Iterable[Problem]) -> None:
        """Problems found by comparing values, except those that follow from a mistake found
        before."""
        paths = self.paths
        self._problems += [problem for problem in problems if not problem.rests_on(paths)]

    def refuse(self) -> None:
        """Raises ClusterFileError with every mistake, if there is any."""
        if self._problems or self._lines:
            raise ClusterFileError(
                [*self.origins.sentences(self._problems), *(line for _, line in self._lines)]
            )


def printable(text: str) -> str:
    """The text on one line, with line ends and control characters escaped, so that a file's content
    cannot control a terminal."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def show(path: KeyPath) -> str:
    """`jobs.worker.addresses[0]`."""
    return "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" for step in path
    ).removeprefix(".")


def _within(path: KeyPath, outer: KeyPath) -> bool:
    return path[: len(outer)] == outer


def _touches(read: KeyPath, wrong: KeyPath) -> bool:
    if read[-1] == "*":
        return _within(read[:-1], wrong[: len(read) - 1]) and len(wrong) <= len(read)
    return _within(read, wrong) or _within(wrong, read)
