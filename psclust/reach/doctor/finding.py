"""The result of one check of one host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from psclust.errors import StartError

Level = Literal["ok", "note", "problem"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one check. note: a cluster runs all the same. `remedy`: what to do; empty if
    nothing is to be done."""

    level: Level
    text: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict, with the host and the check it comes from."""

    host: str
    check: str
    level: Level
    text: str
    remedy: str = ""

    @classmethod
    def of(cls, host: str, check: str, verdict: Verdict) -> Finding:
        return cls(host, check, verdict.level, verdict.text, verdict.remedy)

    @classmethod
    def failed(cls, host: str, check: str, text: str) -> Finding:
        """A check that could not be made, because of `text`."""
        return cls(host, check, "problem", text.removeprefix(f"{host}: "))


def refuse_problems(findings: Iterable[Finding], failures: Sequence[str] = ()) -> None:
    """Raises StartError with a line for each problem, after the lines of `failures`: hosts that
    could not be checked."""
    lines = [*failures]
    lines += [
        f"{one.host}: {one.text}. {one.remedy}".rstrip()
        for one in findings
        if one.level == "problem"
    ]
    if lines:
        raise StartError("\n".join(lines))
