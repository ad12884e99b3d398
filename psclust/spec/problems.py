"""A mistake in what the user gave, and where it stands: a line of the cluster file, or a flag of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# The way to a value from the top of the file: ("jobs", "worker", "addresses", 0).
KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """`text` says what was found and what to do. `reads` are the other values it was judged by, with all they hold, or with a last step
    `*` only their keys; `line` overrides that of `path`."""

    path: KeyPath
    text: str
    reads: tuple[KeyPath, ...] = ()
    line: int | None = None

    def rests_on(self, doubtful: Iterable[KeyPath]) -> bool:
        """Whether a value this was judged by is itself a mistake, stands in one, or holds one."""
        return any(_within(self.path, wrong) or any(_touches(read, wrong) for read in self.reads) for wrong in doubtful)


@dataclass(frozen=True, slots=True)
class Origins:
    """Where every value came from: the line of the file, or the flag that was laid over it. What is in neither is a default."""

    file: str | None
    lines: Mapping[KeyPath, int]
    flags: Mapping[KeyPath, str]

    def where(self, path: KeyPath, line: int | None = None) -> str:
        """`cluster.yaml:9: jobs.worker.count`, or `--workers`."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.flags:
                return ": ".join(filter(None, (self.flags[path[:length]], show(path[length:]))))
            if line is None and path[:length] in self.lines:
                line = self.lines[path[:length]]
        place = self.file if line is None or self.file is None else f"{self.file}:{line}"
        return ": ".join(filter(None, (place, show(path))))

    def sentences(self, problems: Iterable[Problem]) -> list[str]:
        """One line for each problem, in the order of the file; flags come first."""
        ordered = sorted(problems, key=self._position)
        return list(dict.fromkeys(printable(f"{self.where(problem.path, problem.line)}: {problem.text}") for problem in ordered))

    def _position(self, problem: Problem) -> int:
        """The line; flags stand before the file, in the order in which they were given."""
        if problem.line is not None:
            return problem.line
        flags = list(self.flags)
        for length in range(len(problem.path), 0, -1):
            path = problem.path[:length]
            if path in self.flags:
                return flags.index(path) - len(flags)
            if path in self.lines:
                return self.lines[path]
        return 0


def printable(text: str) -> str:
    """A text on one line, with line ends and control characters spelt out: what a file holds must not steer a terminal."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def show(path: KeyPath) -> str:
    """`jobs.worker.addresses[0]`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def _within(path: KeyPath, outer: KeyPath) -> bool:
    return path[: len(outer)] == outer


def _touches(read: KeyPath, wrong: KeyPath) -> bool:
    if read[-1] == "*":
        return _within(read[:-1], wrong[: len(read) - 1]) and len(wrong) <= len(read)
    return _within(read, wrong) or _within(wrong, read)
