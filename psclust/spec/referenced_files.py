"""The files and folders that a cluster file names. Relative paths start at the cluster file, or at
the working folder if a flag names them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from psclust.errors import ClusterFileError
from psclust.spec.cluster_file import ClusterText
from psclust.spec.env_file import parse_env_file
from psclust.spec.problems import Mistakes, Origins, Problem
from psclust.spec.user_files import read_text

_Content = TypeVar("_Content")


def absolute_paths(text: ClusterText, mistakes: Mistakes) -> dict[str, str]:
    """`ship` and `env_file` as absolute paths. The file of variables is read only to find its
    mistakes."""
    paths: dict[str, str] = {}
    if text.ship is not None:
        folder = _locate("ship", text.ship, mistakes.origins)
        if not folder.is_dir():
            what = (
                "this is a file; name the folder it is in"
                if folder.exists()
                else "there is no such folder; check the name"
            )
            mistakes.add([Problem(("ship",), f"{folder}: {what}.")])
        paths["ship"] = str(folder.absolute())
    if text.env_file is not None:
        read_referenced("env_file", text.env_file, mistakes, parse_env_file)
        paths["env_file"] = str(_locate("env_file", text.env_file, mistakes.origins).absolute())
    return paths


def read_referenced(
    key: str, name: str, mistakes: Mistakes, parse: Callable[[str, str], _Content]
) -> _Content | None:
    """The file's contents; None, with mistakes added, if it cannot be read or has some. parse: its
    text, with where that is from."""
    path = _locate(key, name, mistakes.origins)
    try:
        text = read_text(path)
    except ClusterFileError as error:
        mistakes.add(Problem((key,), problem) for problem in error.problems)
        return None
    try:
        return parse(text, str(path))
    except ClusterFileError as error:
        mistakes.add_lines((key,), error.problems)
        return None


def _locate(key: str, name: str, origins: Origins) -> Path:
    base = (
        Path(origins.file).parent
        if origins.file is not None and (key,) not in origins.flags
        else Path()
    )
    return base / Path(name).expanduser()
