"""Reads a cluster file, with the flags that override it, into a `ClusterFile` that needs no further
check. Mistakes of syntax, type and spelling, in hosts and between keys are all reported
together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from psclust.errors import ClusterFileError, UsageError
from psclust.spec.checks import Rule, check
from psclust.spec.cluster import Host
from psclust.spec.cluster_file import ClusterFile, ClusterText, clean_name, json_schema
from psclust.spec.found_hosts import HOST_WORDS, LOCAL, FindHosts, FoundHosts, this_machine
from psclust.spec.host_lists import Piece, parse_hostfile, read_pieces, split_list
from psclust.spec.job_keys import Job
from psclust.spec.key_types import ARRAY_TASK
from psclust.spec.overrides import Override, lay_over
from psclust.spec.problems import KeyPath, Mistakes, Origins, Problem
from psclust.spec.referenced_files import absolute_paths, read_referenced
from psclust.spec.spelling import explain, found
from psclust.spec.user_files import read_text
from psclust.spec.worker_range import as_wanted, with_room
from psclust.spec.yaml_lines import read_yaml

# The file as its program needs it, and a sentence for the user if that differs from what the user
# wrote.
Suit = Callable[[ClusterText], tuple[ClusterText, str | None]]

__all__ = ["Override", "json_schema", "load"]


def load(
    path: Path | None,
    overrides: Iterable[Override] = (),
    *,
    default_name: str,
    rules: Sequence[Rule] = (),
    find_hosts: FindHosts = this_machine,
    suit: Suit = lambda text: (text, None),
    array_task: str | None = None,
) -> ClusterFile:
    """The cluster that the file at `path` describes, with `overrides` applied; without a path, the
    flags and the defaults alone.

    `default_name` names a cluster whose file does not; characters that a name cannot have become
    `-`. `rules`: more than every cluster must obey. `find_hosts` finds the hosts that are not
    listed, or says which nodes a job to be submitted will have. `suit`: what its program asks for
    where the file is silent. `array_task`: the number of the task in a Slurm array job, if it is
    one. Raises ClusterFileError with one line for each mistake, `file:line: key: ...` or
    `--flag: ...`."""
    data, origins, problems = _read_file(path)
    data, origins, contradictions = lay_over(data, origins, overrides)
    mistakes = Mistakes(origins, [*problems, *contradictions])
    text, suited = suit(_validate(data, mistakes))
    found = None
    if text.hostfile is not None:
        hosts = _read_hostfile(text.hostfile, data, mistakes)
    elif data.get("hosts") is None or data["hosts"] in HOST_WORDS:
        found = _find(find_hosts, as_wanted(text), mistakes)
        hosts = list(found.hosts) if found else []
    else:
        hosts = _read_hosts(data["hosts"], mistakes)
    name = text.name or clean_name(default_name)
    own: dict[str, object] = {
        **absolute_paths(text, mistakes),
        "name": name if array_task is None else name.replace(ARRAY_TASK, array_task),
        "hosts": hosts,
    }
    more = {"suited": suited, "array_task": array_task, "found": found.text if found else None}
    own |= {key: value for key, value in more.items() if value is not None}
    file = with_room(ClusterFile.model_validate({**_given(text, found), **own}))
    mistakes.add_founded(check(file))
    mistakes.add_founded(problem for rule in rules for problem in rule(file))
    mistakes.refuse()
    return file


def _read_file(path: Path | None) -> tuple[dict[str, object], Origins, Sequence[Problem]]:
    if path is None:
        return {}, Origins(None, {}, {}), ()
    hint = "check the name, or let `psclust init` write a cluster file to start from."
    document = read_yaml(read_text(path, otherwise=hint))
    origins = Origins(str(path), document.lines, {})
    if isinstance(document.data, dict):
        return document.data, origins, document.problems
    problems = document.problems or (Problem((), _not_a_mapping(document.data)),)
    raise ClusterFileError(origins.sentences(problems))


def _not_a_mapping(data: object) -> str:
    if data is None:
        return (
            "the file is empty; write at least `jobs:`, "
            "or let `psclust init` write a file to start from."
        )
    colon = (
        " A blank must follow the colon."
        if isinstance(data, str) and re.search(r":\S", data)
        else ""
    )
    return (
        f"found {found(data)} where the file should hold keys; write keys such as `name: "
        f"...` and `jobs: ...`.{colon}"
    )


def _validate(data: dict[str, object], mistakes: Mistakes) -> ClusterText:
    """The file as a model, without the invalid values, so that the rest can still be checked.
    Raises ClusterFileError if too little is left."""
    known = mistakes.paths
    for _ in range(3):
        try:
            return ClusterText.model_validate(data)
        except ValidationError as error:
            problems = explain(error, data)
            mistakes.add(problem for problem in problems if problem.path not in known)
            for problem in problems:
                data = _without(data, problem.path)
    mistakes.refuse()
    raise AssertionError


def _without(data: dict[str, object], path: KeyPath) -> dict[str, object]:
    """A copy without the value at `path`; without the whole list if that is an item, because the
    items after it would shift."""
    key, rest = str(path[0]), path[1:]
    inner = data.get(key)
    if rest and isinstance(rest[0], str) and isinstance(inner, dict):
        return {**data, key: _without(inner, rest)}
    return {other: value for other, value in data.items() if other != key}


def _find(find_hosts: FindHosts, text: ClusterText, mistakes: Mistakes) -> FoundHosts | None:
    try:
        return None if text.hosts == LOCAL else find_hosts(text)
    except UsageError as error:
        mistakes.add([Problem(("hosts",), str(error))])
        return None


def _given(text: ClusterText, found: FoundHosts | None) -> dict[str, object]:
    """The keys that the file sets, and those that found hosts bring with them."""
    given = {
        key: getattr(text, key) for key in text.model_fields_set if key in ClusterFile.model_fields
    }
    if found is None:
        return given
    default = {"reach_by": found.reach_by} | ({"python": found.python} if found.python else {})
    return {**default, **given, "jobs": _without_groups(text.jobs, found.groups)}


def _without_groups(jobs: Mapping[str, Job], groups: Mapping[str, Sequence[str]]) -> dict[str, Job]:
    """The jobs, with the hosts of a group in place of its name."""
    return {
        name: job
        if job.hosts is None
        else job.model_copy(
            update={"hosts": [each for host in job.hosts for each in groups.get(host, [host])]}
        )
        for name, job in jobs.items()
    }


def _read_hosts(items: object, mistakes: Mistakes) -> list[Host]:
    """The hosts under `hosts`; of a list, the items that the models accepted, so that one bad item
    hides no other."""
    pieces: list[Piece] = []
    paths: list[KeyPath] = []
    listed: Sequence[object] = items if isinstance(items, list) else [items]
    for index, item in enumerate(listed):
        path: KeyPath = ("hosts", index) if isinstance(items, list) else ("hosts",)
        if isinstance(item, dict) and not any(wrong[:2] == path for wrong in mistakes.paths):
            contents: Sequence[str | Host] = [Host(**item)]
        else:
            contents = split_list(item) if isinstance(item, str) and item else []
        where = mistakes.origins.where(path).removesuffix(f": hosts[{index}]")
        pieces += [Piece(where, content) for content in contents]
        paths += [path] * len(contents)
    hosts, wrong = read_pieces(pieces)
    mistakes.add(Problem(paths[index], text) for index, text in wrong.items())
    return hosts


def _read_hostfile(name: str, data: Mapping[str, object], mistakes: Mistakes) -> list[Host]:
    if data.get("hosts") is not None:
        mistakes.add([Problem(("hostfile",), "`hosts` says the same thing; keep one of the two.")])
        return []
    return read_referenced("hostfile", name, mistakes, parse_hostfile) or []
