"""What a cluster file names by its path and must be there: relative paths start at the file, those of flags at the working folder."""

from __future__ import annotations

from pathlib import Path

from psclust.errors import ClusterFileError
from psclust.spec.cluster_file import ClusterText
from psclust.spec.env_file import parse_env_file
from psclust.spec.problems import Origins, Problem
from psclust.spec.user_files import read_text


def path_beside(key: str, value: str, origins: Origins, file: Path | None) -> Path:
    base = file.parent if file is not None and (key,) not in origins.flags else Path()
    return base / Path(value).expanduser()


def find_beside(text: ClusterText, origins: Origins, file: Path | None) -> tuple[dict[str, str], list[Problem], list[str]]:
    """`ship` and `env_file` as absolute paths, mistakes in naming them, and finished lines about those in the environment file."""
    found: dict[str, str] = {}
    problems: list[Problem] = []
    lines: list[str] = []
    if text.ship is not None:
        folder = path_beside("ship", text.ship, origins, file)
        if not folder.is_dir():
            what = "this is a file; name the folder it is in" if folder.exists() else "there is no such folder; check the name"
            problems.append(Problem(("ship",), f"{folder}: {what}."))
        found["ship"] = str(folder.absolute())
    if text.env_file is not None:
        path = path_beside("env_file", text.env_file, origins, file)
        try:
            content = read_text(path, otherwise="check the name.")
        except ClusterFileError as error:
            return found, [*problems, *(Problem(("env_file",), problem) for problem in error.problems)], lines
        try:
            parse_env_file(content, where=str(path))
        except ClusterFileError as error:
            lines += error.problems
        found["env_file"] = str(path.absolute())
    return found, problems, lines
