"""The result of one check of one host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from psclust.errors import PsclustError, StartError

Level = Literal["ok", "note", "problem"]
_T = TypeVar("_T")


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


def succeeded(
    outcomes: Mapping[str, _T | PsclustError], check: str, found: list[Finding]
) -> dict[str, _T]:
    """The results; each failure becomes a finding."""
    found += [
        Finding.failed(host, check, str(outcome))
        for host, outcome in outcomes.items()
        if isinstance(outcome, PsclustError)
    ]
    return {
        host: outcome for host, outcome in outcomes.items() if not isinstance(outcome, PsclustError)
    }


def refuse_problems(findings: Iterable[Finding], failures: Sequence[str] = ()) -> None:
    """Raises StartError with a line for each problem, after the lines of `failures`: hosts that
    could not be checked."""
    lines = [*failures]
    lines += [_line(one) for one in findings if one.level == "problem"]
    if lines:
        raise StartError("\n".join(lines))


def problems_of(findings: Iterable[Finding]) -> dict[str, str]:
    """Host -> the lines of its problems; none for a host that has none."""
    found: dict[str, str] = {}
    for one in findings:
        if one.level == "problem":
            found[one.host] = "\n".join([*filter(None, [found.get(one.host)]), _line(one)])
    return found


def _line(problem: Finding) -> str:
    return f"{problem.host}: {problem.text}. {problem.remedy}".rstrip()
