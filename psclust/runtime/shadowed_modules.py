"""Modules in memory that a program's own folders would shadow."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.machinery import all_suffixes


def path_entries(python_path: str) -> list[str]:
    """The folders of a PYTHONPATH as an interpreter puts them on sys.path."""
    return (
        [os.path.abspath(entry) for entry in python_path.split(os.pathsep)] if python_path else []
    )


def hidden(folder: str, modules: Mapping[str, str]) -> str | None:
    """A file in `folder` that a fresh interpreter would import instead of one of `modules` (name ->
    file, or ""), or None."""
    for entry in _listing(folder):
        name, dot, rest = entry.partition(".")
        file = os.path.join(folder, entry) if dot else os.path.join(folder, entry, "__init__.py")
        if (
            name in modules
            and (not dot or dot + rest in all_suffixes())
            and os.path.isfile(file)
            and not _same(file, modules[name])
        ):
            return file
    return None


def _listing(folder: str) -> list[str]:
    try:
        return os.listdir(folder or os.curdir)
    except OSError:
        return []


def _same(path: str, other: str) -> bool:
    return bool(other) and os.path.realpath(path) == os.path.realpath(other)
