"""What was found out about one task: what it does, and which tasks it waits for. Values, and their
lines for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from psclust.spec.plurals import counted


@dataclass(frozen=True, slots=True)
class Finding:
    """does: a clause. for_s: for how many seconds already, None: unknown. silent: whether that is
    how long it has printed nothing. step: the last one it knows of. stack: the innermost frames of
    a program's main thread. strangers: how many connections its server has closed because their
    peers are not of the run. last_stranger: the address of the last."""

    task: str
    does: str
    waits_for: tuple[str, ...] = ()
    for_s: float | None = None
    step: int | None = None
    stack: tuple[str, ...] = ()
    silent: bool = False
    strangers: int = 0
    last_stranger: str = ""


def render(findings: Sequence[Finding], in_words: Callable[[float], str]) -> list[str]:
    """Lines for people: each task, what holds up the others, and the stacks of programs that do not
    train."""
    width = max((len(each.task) for each in findings), default=0)
    lines = [f"{each.task.ljust(width)}  {_line(each, in_words)}" for each in findings]
    awaited = {name.partition(" ")[0] for each in findings for name in each.waits_for}
    for each in findings:
        if each.task in awaited and not each.waits_for:
            lines.append(f"held up by {each.task}: {each.does}")
    lines += [
        f"{each.task} closed {counted(each.strangers, 'connection')} of strangers, the last from "
        f"{each.last_stranger}"
        for each in findings
        if each.strangers
    ]
    for each in findings:
        if each.stack and each.does != "training":
            lines += [
                "",
                f"{each.task}, innermost first:",
                *(f"    {frame}" for frame in each.stack),
            ]
    return lines


def _line(finding: Finding, in_words: Callable[[float], str]) -> str:
    at = (
        f", after step {finding.step}"
        if finding.step is not None and " for step " not in finding.does
        else ""
    )
    lasts = (
        f", {'silent ' * finding.silent}for {in_words(finding.for_s)}"
        if finding.for_s is not None and finding.does != "training"
        else ""
    )
    waits = f"; waits for {', '.join(finding.waits_for)}" if finding.waits_for else ""
    return f"{finding.does}{at}{lasts}{waits}"
