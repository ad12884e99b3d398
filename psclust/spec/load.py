"""From a cluster file and the flags laid over it to a `ClusterFile` that needs no further check, or to every mistake at once: the file's
syntax, its types and spelling, its hosts, and what its parts say of each other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from pydantic import ValidationError

from psclust.errors import ClusterFileError
from psclust.spec.checks import check
from psclust.spec.cluster import Host
from psclust.spec.hosts import Piece, parse_hostfile, read_pieces, split_list
from psclust.spec.lines import read_yaml
from psclust.spec.overrides import Override, lay_over
from psclust.spec.problems import KeyPath, Origins, Problem
from psclust.spec.schema import ClusterFile, ClusterText, clean_name, json_schema
from psclust.spec.words import explain, found

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
    file = _resolve(text, hosts, default_name)
    problems += [problem for problem in check(file) if not problem.rests_on(doubtful)]
    if problems or hostfile_lines:
        raise ClusterFileError([*origins.sentences(problems), *hostfile_lines])
    return file


def read_text(path: Path, *, otherwise: str) -> str:
    """The text of a file the user named. Raises ClusterFileError, in one sentence, when it cannot be read; `otherwise` is what to do about
    a file that is missing where no other has a name like it."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        near = get_close_matches(path.name, _names_in(path.parent), 1, 0.8)
        hint = f"did you mean {path.parent / near[0]}?" if near else otherwise
        raise ClusterFileError([f"{path}: there is no such file; {hint}"]) from None
    except IsADirectoryError:
        inside = sorted(name for name in _names_in(path) if name.endswith((".yaml", ".yml")))
        hint = f"name a file in it, such as {path / inside[0]}." if inside else "name a file."
        raise ClusterFileError([f"{path}: this is a folder; {hint}"]) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ClusterFileError([f"{path}:{line}: this is not UTF-8 text; save the file as UTF-8."]) from None
    except OSError as error:
        raise ClusterFileError(
            [f"{path}: cannot be read ({(error.strerror or str(error)).lower()}); check the path and its permissions."]
        ) from None


def _names_in(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except OSError:
        return []


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


def _resolve(text: ClusterText, hosts: list[Host], default_name: str) -> ClusterFile:
    given = {key: getattr(text, key) for key in text.model_fields_set if key in ClusterFile.model_fields}
    return ClusterFile.model_validate({**given, "name": text.name or clean_name(default_name), "hosts": hosts})


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
    base = file.parent if file is not None and ("hostfile",) not in origins.flags else Path()
    path = base / Path(text.hostfile or "").expanduser()
    try:
        content = read_text(path, otherwise="check the name.")
    except ClusterFileError as error:
        return [], [Problem(("hostfile",), problem) for problem in error.problems], []
    try:
        return parse_hostfile(content, where=str(path)), [], []
    except ClusterFileError as error:
        return [], [], list(error.problems)
