"""Applies the flags of the command line to the data of a cluster file before it is checked, so that
both obey the same rules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from psclust.spec.job_keys import default_jobs
from psclust.spec.problems import KeyPath, Origins, Problem

# Alternatives: a flag for one of these replaces the other in the file.
_RIVALS: dict[KeyPath, KeyPath] = {("hosts",): ("hostfile",), ("hostfile",): ("hosts",)}


@dataclass(frozen=True, slots=True)
class Override:
    """`value` replaces that of the file at `path`; None: as if the file had none. Messages name it
    by `flag`, such as `--ps`."""

    flag: str
    path: KeyPath
    value: object


def lay_over(
    data: dict[str, object], origins: Origins, overrides: Iterable[Override]
) -> tuple[dict[str, object], Origins, list[Problem]]:
    """The data with the values of the flags, the origin of each value, and flags that contradict
    each other."""
    data = _spell_out(data, overrides := list(overrides))
    flags: dict[KeyPath, str] = {}
    problems = []
    for override in overrides:
        rival = _RIVALS.get(override.path)
        earlier = next(
            (
                path
                for path in (override.path, rival)
                if path in flags and flags[path] != override.flag
            ),
            None,
        )
        if earlier is not None:
            problems.append(Problem(earlier, f"contradicts {override.flag}; give one of the two."))
            continue
        flags[override.path] = override.flag
        if rival is not None:
            data.pop(str(rival[0]), None)
        _put(
            data,
            override.path,
            list(override.value) if isinstance(override.value, tuple) else override.value,
        )
    replaced = {
        path for flagged in flags for path in origins.lines if path[: len(flagged)] == flagged
    }
    lines = {path: line for path, line in origins.lines.items() if path not in replaced}
    return data, Origins(origins.file, lines, flags), problems


def _spell_out(data: dict[str, object], overrides: list[Override]) -> dict[str, object]:
    """A copy in which `ps: 2` reads `ps: {count: 2}` and `placement: balanced` `placement: {policy:
    balanced}`, with the default jobs in place where flags change some of them."""
    data = dict(data)
    if isinstance(data.get("placement"), str) and any(
        override.path[0] == "placement" for override in overrides
    ):
        data["placement"] = {"policy": data["placement"]}
    if "jobs" not in data and any(override.path[0] == "jobs" for override in overrides):
        data["jobs"] = {name: job.count for name, job in default_jobs().items()}
    jobs = data.get("jobs")
    if isinstance(jobs, dict):
        data["jobs"] = {
            name: {"count": job} if isinstance(job, int) and not isinstance(job, bool) else job
            for name, job in jobs.items()
        }
    return data


def _put(data: dict[str, object], path: KeyPath, value: object) -> None:
    """Sets a value, and creates the mappings above it. If the file has no mapping there, leaves
    that mistake to be reported first."""
    *above, last = map(str, path)
    for step in above:
        inner = data.get(step)
        if inner is not None and not isinstance(inner, dict):
            return
        data[step] = inner = dict(inner or {})
        data = inner
    if value is None:
        data.pop(last, None)
    else:
        data[last] = value
