"""Reads the files that a user names, with a sentence for each kind of failure."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from psclust.errors import ClusterFileError


def read_text(path: Path, *, otherwise: str = "check the name.") -> str:
    """Raises ClusterFileError, in one sentence, if the file cannot be read. `otherwise`: what to do
    if it is missing and no other file has a similar name."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        near = get_close_matches(path.name, _names_in(path.parent), 1, 0.8)
        hint = f"did you mean {path.parent / near[0]}?" if near else otherwise
        why = f"{path}: there is no such file; {hint}"
    except IsADirectoryError:
        inside = sorted(name for name in _names_in(path) if name.endswith((".yaml", ".yml")))
        hint = f"name a file in it, such as {path / inside[0]}." if inside else "name a file."
        why = f"{path}: this is a folder; {hint}"
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        why = f"{path}:{line}: this is not UTF-8 text; save the file as UTF-8."
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        why = f"{path}: cannot be read ({reason}); check the path and its permissions."
    raise ClusterFileError([why])


def _names_in(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except OSError:
        return []
