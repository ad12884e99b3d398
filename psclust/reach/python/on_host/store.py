"""A host's store of what was shipped to it: contents by their digest, folders built from them, and
which run uses which folders.

A folder is built aside and renamed when it is complete, so half of one is never seen, and it never
changes afterwards, so the next run's changes do not disturb a run that uses it. It is removed when
the last run that used it is purged, or after a month without use; never while a process works in
it."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO, NamedTuple

_CHUNK = 1 << 20
_KEPT_S = 30 * 86400.0  # without use
_ENDING_S = 5.0  # for processes of a run that has just ended
_POLL_S = 0.05


class Entry(NamedTuple):
    """A file (`digest`: SHA-256 of its bytes) or a symbolic link (`link`: its text). `path`: below
    the tree, with `/`; `source`: where the launcher has it, "" here; `size`: bytes."""

    path: str
    source: str
    size: int
    executable: bool
    digest: str | None
    link: str | None = None


class Tree(NamedTuple):
    """A folder as it is to be here. `digest`: equal for folders with the same content; `root`:
    where the launcher has it, which may be here too."""

    name: str
    digest: str
    root: str | None
    entries: list[Entry]


def answer(question: dict[str, Any], stream: BinaryIO) -> dict[str, Any]:
    """`question`: `cache`, the store's folder; `run`, a file name for a run on this host; `work`,
    and what that needs.

    work purge: remove `folder`, the run's own, and what only this run used; `kept`: the folders
    that stay because a process uses them.
    work take: have `trees` here, built from `contents` (digest and size of each) that follow in the
    stream. `folders`: those of the trees, None while contents are `missing`; `free`: bytes; or
    `changed`: contents that differ from their digest."""
    if question["work"] == "purge":
        _remove_run(question["folder"])
        with _Store(question["cache"], fcntl.LOCK_EX) as store:
            return {"kept": store.forget(question["run"])}
    trees = [
        Tree(**{**tree, "entries": [Entry(**entry) for entry in tree["entries"]]})
        for tree in question["trees"]
    ]
    with _Store(question["cache"], fcntl.LOCK_SH) as store:
        changed = store.take(question["contents"], stream)
        if changed:
            return {"changed": changed}
        store.note(question["run"], trees)
        folders = [store.find(tree) for tree in trees]
        wanted = [tree for tree, folder in zip(trees, folders, strict=True) if folder is None]
        missing = sorted(
            {
                entry.digest
                for tree in wanted
                for entry in tree.entries
                if entry.digest and not store.has(entry.digest)
            }
        )
        if not missing:
            folders = [
                folder or store.build(tree) for tree, folder in zip(trees, folders, strict=True)
            ]
        free = shutil.disk_usage(store.path).free
    if not missing:
        with (
            suppress(BlockingIOError),
            _Store(question["cache"], fcntl.LOCK_EX | fcntl.LOCK_NB) as store,
        ):
            store.remove_old()
    return {"folders": folders, "missing": missing, "free": free}


def _remove_run(folder: str) -> None:
    """Also the folders above it that are empty then: STATE/agents/NAME/RUN/HOST."""
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        for _ in range(4):
            folder = os.path.dirname(folder)
            os.rmdir(folder)


class _Store:
    """A context that holds the lock: shared (LOCK_SH) to add, exclusive (LOCK_EX) to remove. Raises
    BlockingIOError with LOCK_NB."""

    def __init__(self, path: str, lock: int) -> None:
        self.path = path
        self._kind = lock
        self._contents, self._folders, self._runs = (
            os.path.join(path, part) for part in ("contents", "folders", "runs")
        )

    def __enter__(self) -> _Store:
        while not self._lock():
            pass
        for folder in (self._contents, self._folders, self._runs):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        return self

    def __exit__(self, *details: object) -> None:
        self._file.close()

    def _lock(self) -> bool:
        """False if another process removed the store at that moment."""
        os.makedirs(self.path, mode=0o700, exist_ok=True)
        path = os.path.join(self.path, "lock")
        with suppress(FileNotFoundError):
            self._file = open(path, "ab")  # noqa: SIM115 - closed on leaving
            fcntl.flock(self._file, self._kind)
            return os.path.samestat(os.fstat(self._file.fileno()), os.stat(path))
        return False

    # ---- adding

    def has(self, digest: str) -> bool:
        return os.path.exists(self._content(digest))

    def take(self, contents: list[tuple[str, int]], stream: BinaryIO) -> list[str]:
        """Store the stream's contents; returns the digests of those that are something else. Reads
        all of them even if the disk is full: the next question follows in the stream."""
        changed = []
        failure: OSError | None = None
        for digest, size in contents:
            found, pieces = hashlib.sha256(), _read(stream, size)
            try:
                if failure is None:
                    self._write(digest, found, pieces)
            except OSError as error:
                failure = error
            for piece in pieces:
                found.update(piece)
            if found.hexdigest() != digest:
                changed.append(digest)
        if failure is not None:
            raise failure
        return changed

    def _write(self, digest: str, found: Any, pieces: Iterator[bytes]) -> None:
        """Keep the content if it is the right one; `found` is the hash to update."""
        descriptor, aside = tempfile.mkstemp(dir=self._contents)
        try:
            with open(descriptor, "wb") as file:
                for piece in pieces:
                    found.update(piece)
                    file.write(piece)
            if found.hexdigest() == digest:
                os.rename(aside, self._content(digest))
        finally:
            with suppress(FileNotFoundError):
                os.unlink(aside)

    def find(self, tree: Tree) -> str | None:
        """A folder that holds the tree already: the launcher's own on a shared file system, or one
        built before."""
        if tree.root is not None and _holds(tree.root, tree.entries):
            return tree.root
        path = self._folder(tree)
        if all(
            os.path.lexists(os.path.join(path, entry.path)) for entry in tree.entries
        ) and os.path.isdir(path):
            os.utime(path)
            return path
        return None

    def build(self, tree: Tree) -> str:
        final = self._folder(tree)
        aside = tempfile.mkdtemp(prefix=".new-", dir=self._folders)
        for entry in tree.entries:
            path = os.path.join(aside, entry.path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if entry.digest is None:
                os.symlink(entry.link or "", path)
            else:
                shutil.copyfile(self._content(entry.digest), path)
                os.utime(self._content(entry.digest))
                os.chmod(path, 0o700 if entry.executable else 0o600)
        try:
            os.rename(aside, final)
        except OSError:
            # Another process was faster, or files were removed from the folder: put those back, one
            # at a time.
            for entry in tree.entries:
                path = os.path.join(final, entry.path)
                if not os.path.lexists(path):
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    os.rename(os.path.join(aside, entry.path), path)
            shutil.rmtree(aside, ignore_errors=True)
        return final

    def note(self, run: str, trees: list[Tree]) -> None:
        """Record that the run uses these trees."""
        with open(os.path.join(self._runs, run), "w", encoding="utf-8") as file:
            json.dump([os.path.basename(self._folder(tree)) for tree in trees], file)

    # ---- removing

    def forget(self, run: str) -> list[str]:
        """Remove the run's record, the folders that no other run uses, and the store if it is empty
        then; returns the folders in use."""
        mine = self._used_by(run)
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self._runs, run))
        others = {name for other in os.listdir(self._runs) for name in self._used_by(other)}
        kept = [
            folder
            for name in sorted(mine - others)
            if os.path.isdir(folder := os.path.join(self._folders, name))
        ]
        end = time.monotonic() + _ENDING_S
        while (kept := self._remove(kept)) and time.monotonic() < end:
            time.sleep(_POLL_S)
        if not os.listdir(self._folders) and not os.listdir(self._runs):
            self._remove_store()
        return kept

    def _remove_store(self) -> None:
        """Leaves what others keep beside it, such as a program its data."""
        for part in (self._contents, self._folders, self._runs):
            shutil.rmtree(part, ignore_errors=True)
        with suppress(OSError):
            os.unlink(os.path.join(self.path, "lock"))
            os.rmdir(self.path)

    def remove_old(self) -> None:
        """Remove all that has not been used for a month."""
        old = time.time() - _KEPT_S
        self._remove([folder for folder in _inside(self._folders) if _last_use(folder) < old])
        for path in [*_inside(self._contents), *_inside(self._runs)]:
            if _last_use(path) < old:
                os.unlink(path)

    def _remove(self, folders: list[str]) -> list[str]:
        """With their contents; returns the folders that a process works in or was started from,
        which stay."""
        places = _places_of_processes() if folders else set()
        busy = [
            folder
            for folder in folders
            if any(place == folder or place.startswith(folder + "/") for place in places)
        ]
        for folder in set(folders).difference(busy):
            for path in _files(folder):
                with suppress(OSError):
                    os.unlink(self._content(_digest(path)))
            shutil.rmtree(folder, ignore_errors=True)
        return busy

    def _used_by(self, run: str) -> set[str]:
        """Names of folders."""
        with (
            suppress(FileNotFoundError, ValueError),
            open(os.path.join(self._runs, run), encoding="utf-8") as file,
        ):
            return set(json.load(file))
        return set()

    def _content(self, digest: str) -> str:
        return os.path.join(self._contents, digest)

    def _folder(self, tree: Tree) -> str:
        return os.path.join(self._folders, f"{tree.name}-{tree.digest[:16]}")


def _read(stream: BinaryIO, size: int) -> Iterator[bytes]:
    while size > 0:
        data = stream.read(min(size, _CHUNK))
        if not data:
            raise EOFError
        size -= len(data)
        yield data


def _holds(root: str, entries: list[Entry]) -> bool:
    """Whether the folder has exactly these files; sizes first, which is quick."""
    if not os.path.isdir(root):
        return False
    for entry in entries:
        path = os.path.join(root, entry.path)
        try:
            if (
                (os.readlink(path) != entry.link)
                if entry.link is not None
                else (os.path.getsize(path) != entry.size)
            ):
                return False
        except OSError:
            return False
    return all(
        _digest(os.path.join(root, entry.path)) == entry.digest
        for entry in entries
        if entry.digest is not None
    )


def _digest(path: str) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while data := file.read(_CHUNK):
            found.update(data)
    return found.hexdigest()


def _last_use(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return time.time()


def _inside(folder: str) -> list[str]:
    return [os.path.join(folder, name) for name in os.listdir(folder)]


def _files(folder: str) -> Iterator[str]:
    """Regular files at any depth."""
    for where, _, names in os.walk(folder):
        yield from (
            path
            for path in (os.path.join(where, name) for name in names)
            if stat.S_ISREG(os.lstat(path).st_mode)
        )


def _places_of_processes() -> set[str]:
    """The working folder of each process of this user, and every absolute path on its command
    line."""
    found = set()
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            with suppress(OSError):
                found.add(os.readlink(f"/proc/{pid}/cwd"))
                with open(
                    f"/proc/{pid}/cmdline", encoding="utf-8", errors="surrogateescape"
                ) as file:
                    found.update(word for word in file.read().split("\0") if word.startswith("/"))
    return found
