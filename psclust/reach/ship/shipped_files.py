"""The files of a folder that are sent to hosts, with their digests: all but those that `.gitignore`
files leave out."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pathspec

import psclust
from psclust.errors import UsageError
from psclust.reach.python.on_host.store import Entry, Tree
from psclust.spec.cluster_file import clean_name

MOST_BYTES = 500_000_000
_NEVER = {".git", ".hg", ".svn", ".venv", "__pycache__"}
_CHUNK = 1 << 20


def program_tree(root: Path, *, without: Sequence[Path] = (), most: int = MOST_BYTES) -> Tree:
    """The files of a program's folder, without those that a `.gitignore` at any depth leaves out,
    version control, caches, virtual environments, and the files `without`, such as one with
    secrets. Symbolic links stay links. Raises UsageError for more than `most` bytes, naming the
    biggest entries, and for a file that cannot be read."""
    root = root.resolve()
    try:
        secret = {path.resolve() for path in without}
        found = sorted(
            (path for path in _files(root, ()) if path not in secret),
            key=lambda path: path.relative_to(root).as_posix(),
        )
        sizes = {path: path.lstat().st_size for path in found}
        if sum(sizes.values()) > most:
            raise UsageError(_too_much(root, sizes, most))
        entries = [_entry(path, path.relative_to(root).as_posix()) for path in found]
        return _tree(clean_name(root.name), str(root), entries)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UsageError(
            f"ship: {error.filename}: {why}; it cannot be sent. "
            "Make it readable, or list it in .gitignore."
        ) from None


def package_tree() -> Tree:
    """psclust itself. Its plain libraries get names that any Python version finds: they are built
    for none in particular."""
    package = Path(psclust.__file__).parent
    entries = []
    for path in sorted(package.rglob("*")):
        if "__pycache__" in path.parts or not path.is_file():
            continue
        name = f"psclust/{path.relative_to(package).as_posix()}"
        if path.suffix == ".so":
            name = f"{name.partition('.')[0]}.so"
        entries.append(_entry(path, name))
    return _tree("psclust", None, entries)


def _files(folder: Path, rules: Sequence[tuple[Path, pathspec.GitIgnoreSpec]]) -> Iterator[Path]:
    """`rules`: the ignore files above and in this folder, the nearest last."""
    ignore = folder / ".gitignore"
    if ignore.is_file():
        rules = [
            *rules,
            (
                folder,
                pathspec.GitIgnoreSpec.from_lines(
                    ignore.read_text(encoding="utf-8", errors="replace").splitlines()
                ),
            ),
        ]
    with os.scandir(folder) as listing:
        entries = list(listing)
    for entry in entries:
        path, is_folder = Path(entry.path), entry.is_dir(follow_symlinks=False)
        if (
            entry.name in _NEVER
            or _is_ignored(path, is_folder, rules)
            or (is_folder and (path / "pyvenv.cfg").is_file())
        ):
            continue
        if is_folder:
            yield from _files(path, rules)
        elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
            yield path


def _is_ignored(
    path: Path, is_folder: bool, rules: Sequence[tuple[Path, pathspec.GitIgnoreSpec]]
) -> bool:
    """The nearest ignore file that mentions the path decides."""
    for folder, spec in reversed(rules):
        decision = spec.check_file(
            path.relative_to(folder).as_posix() + ("/" if is_folder else "")
        ).include
        if decision is not None:
            return decision
    return False


def _tree(name: str, root: str | None, entries: list[Entry]) -> Tree:
    listed = [[entry.path, entry.executable, entry.digest, entry.link] for entry in entries]
    digest = hashlib.sha256(json.dumps(listed).encode()).hexdigest()
    return Tree(name, digest, root, entries)


def _entry(path: Path, name: str) -> Entry:
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        return Entry(name, str(path), 0, False, None, os.readlink(path))
    digest = hashlib.sha256()
    size = 0
    with path.open("rb") as file:
        while data := file.read(_CHUNK):
            digest.update(data)
            size += len(data)
    return Entry(name, str(path), size, bool(found.st_mode & stat.S_IXUSR), digest.hexdigest())


def _too_much(root: Path, sizes: dict[Path, int], most: int) -> str:
    """Names the biggest entries: folders at the top, or inside the one that holds nearly
    everything."""
    total = sum(sizes.values())
    for depth in (1, 2, 3):
        sums: Counter[str] = Counter()
        for path, size in sizes.items():
            parts = path.relative_to(root).parts
            sums["/".join(parts[:depth]) + ("/" if len(parts) > depth else "")] += size
        if sums.most_common(1)[0][1] < 0.9 * total:
            break
    biggest = ", ".join(f"{name} ({megabytes(size)})" for name, size in sums.most_common(3))
    return (
        f"ship: {root} holds {megabytes(total)}, "
        f"more than the {megabytes(most)} that are sent to hosts; the biggest: {biggest}. "
        "List data in .gitignore and keep it where every host reads it, or name a smaller folder."
    )


def megabytes(size: int) -> str:
    """`1,200 MB`, or bytes below one MB."""
    return f"{size / 1e6:,.0f} MB" if size >= 1e6 else f"{size:,} bytes"
