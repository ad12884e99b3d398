"""From a cluster file and the flags laid over it to a `ClusterFile` that needs no further check, or to every mistake at once: the file's
syntax, its types and spelling, its hosts, and what its parts say of each other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from psclust.errors import ClusterFileError
from psclust.spec.checks import check
from psclust.spec.cluster import Host
from psclust.spec.cluster_file import ClusterFile, ClusterText, clean_name, json_schema
from psclust.spec.host_lists import Piece, parse_hostfile, read_pieces, split_list
from psclust.spec.overrides import Override, lay_over
from psclust.spec.problems import KeyPath, Origins, Problem
from psclust.spec.referenced_files import find_beside, path_beside
from psclust.spec.spelling import explain, found
from psclust.spec.user_files import read_text
from psclust.spec.yaml_lines import read_yaml

__all__ = ["Override", "json_schema", "load"]


def load(path: Path | None, overrides: Iterable[Override] = (), *, default_name: str) -> ClusterFile:
    """The cluster that the file at `path` describes, with `overrides` laid over it; None: the flags and the defaults alone.

    `default_name` is the name of a file that gives itself none; characters a name cannot have become `-`.
    Raises ClusterFileError with one line for each mistake, `file:line: key: ...` or `--flag: ...`."""
    data, origins, problems = _read_file(path)
    data, origins, contradictions = lay_over(data, origins, overrides)
    problems += contradictions
    text, mistakes = _validate(data, doubtful=[problem.path for problem in problems])
    problems += mistakes
    if text is None:
        raise ClusterFileError(origins.sentences(problems))
    doubtful: list[KeyPath] = [problem.path for problem in problems]
    if text.hostfile is not None:
        hosts, bad_hosts, hostfile_lines = _read_hostfile(text, data, origins, path)
    else:
        hosts, bad_hosts = _read_hosts(data.get("hosts"), doubtful, origins)
        hostfile_lines = []
    problems += bad_hosts
    if bad_hosts or hostfile_lines:
        doubtful += [("hosts",), ("hostfile",)]
    beside, missing, env_lines = find_beside(text, origins, path)
    problems += missing
    file = _resolve(text, hosts, beside, default_name)
    problems += [problem for problem in check(file) if not problem.rests_on(doubtful)]
    if problems or hostfile_lines or env_lines:
        raise ClusterFileError([*origins.sentences(problems), *hostfile_lines, *env_lines])
    return file


def _read_file(path: Path | None) -> tuple[dict[str, object], Origins, list[Problem]]:
    if path is None:
        return {}, Origins(None, {}, {}), []
    document = read_yaml(read_text(path, otherwise="check the name, or let `psclust init` write a cluster file to start from."))
    origins = Origins(str(path), document.lines, {})
    if isinstance(document.data, dict):
        return document.data, origins, list(document.problems)
    problems = document.problems or (Problem((), _not_a_mapping(document.data)),)
    raise ClusterFileError(origins.sentences(problems))


def _not_a_mapping(data: object) -> str:
    if data is None:
        return "the file is empty; write at least `jobs:`, or let `psclust init` write a file to start from."
    colon = " A blank must follow the colon." if isinstance(data, str) and re.search(r":\S", data) else ""
    return f"found {found(data)} where the file should hold keys; write keys such as `name: ...` and `jobs: ...`.{colon}"


def _validate(data: dict[str, object], doubtful: Sequence[KeyPath]) -> tuple[ClusterText | None, list[Problem]]:
    """The file as a model, without the values that are mistaken, so that what is left can still be checked; None if too little is left."""
    problems: list[Problem] = []
    for _ in range(3):
        try:
            return ClusterText.model_validate(data), problems
        except ValidationError as error:
            fresh = explain(error, data)
            problems += [problem for problem in fresh if problem.path not in doubtful]
            for problem in fresh:
                data = _without(data, problem.path)
    return None, problems


def _without(data: dict[str, object], path: KeyPath) -> dict[str, object]:
    """A copy without the value at `path`; of a list, which would shift, nothing is left."""
    key, rest = str(path[0]), path[1:]
    inner = data.get(key)
    if rest and isinstance(rest[0], str) and isinstance(inner, dict):
        return {**data, key: _without(inner, rest)}
    return {other: value for other, value in data.items() if other != key}


def _resolve(text: ClusterText, hosts: list[Host], beside: Mapping[str, str], default_name: str) -> ClusterFile:
    given = {key: getattr(text, key) for key in text.model_fields_set if key in ClusterFile.model_fields}
    return ClusterFile.model_validate({**given, **beside, "name": text.name or clean_name(default_name), "hosts": hosts})


def _read_hosts(items: object, doubtful: Sequence[KeyPath], origins: Origins) -> tuple[list[Host], list[Problem]]:
    """The hosts under `hosts`; in a list, those that the models accepted, so that one bad item hides no other."""
    pieces: list[Piece] = []
    paths: list[KeyPath] = []
    listed: Sequence[object] = items if isinstance(items, list) else [items]
    for index, item in enumerate(listed):
        path: KeyPath = ("hosts", index) if isinstance(items, list) else ("hosts",)
        if isinstance(item, dict) and not any(wrong[:2] == path for wrong in doubtful):
            contents: Sequence[str | Host] = [Host(**item)]
        else:
            contents = split_list(item) if isinstance(item, str) and item else []
        where = origins.where(path).removesuffix(f": hosts[{index}]")
        pieces += [Piece(where, content) for content in contents]
        paths += [path] * len(contents)
    hosts, problems = read_pieces(pieces)
    return hosts, [Problem(paths[problem.piece], problem.text) for problem in problems]


def _read_hostfile(
    text: ClusterText, data: Mapping[str, object], origins: Origins, file: Path | None
) -> tuple[list[Host], list[Problem], list[str]]:
    """The hosts of the hostfile, beside the cluster file if a line names it; the mistake in naming it, or finished lines about its own."""
    if data.get("hosts") is not None:
        return [], [Problem(("hostfile",), "`hosts` says the same thing; keep one of the two.")], []
    path = path_beside("hostfile", text.hostfile or "", origins, file)
    try:
        content = read_text(path, otherwise="check the name.")
    except ClusterFileError as error:
        return [], [Problem(("hostfile",), problem) for problem in error.problems], []
    try:
        return parse_hostfile(content, where=str(path)), [], []
    except ClusterFileError as error:
        return [], [], list(error.problems)
