"""A host's store of what was sent to it: contents by their digest, folders made of them, and which run uses which folders.

A folder is built beside and renamed when it is whole, so that nobody sees half of one, and it is never changed afterwards, so that a run
that uses it is not disturbed by the next one's changes. It goes when the last run that used it is purged, or when nobody has used it for a
month; never while a process works in it."""

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
from typing import Any, BinaryIO

_CHUNK = 1 << 20
_KEPT = 30 * 86400.0  # seconds
_PARTS = ("contents", "folders", "runs")
_ENDING_S = 5.0  # for processes of a run that has just ended
_AGAIN_S = 0.05


def answer(question: dict[str, Any], stream: BinaryIO) -> dict[str, Any]:
    """`question`: `cache`, the store's folder, and `run`, a file name for a run on this host. `purge`: the run's own folder, which is
    removed with what only this run used; `kept` is what of that somebody uses all the same. Otherwise `trees`, each with `name`, `digest`,
    `root` and `entries`; and `contents`, digest and size of each that follows in the stream, or None to be told what is missing. The folder
    of a tree is None until nothing is."""
    if "purge" in question:
        _remove_run(question["purge"])
        with _Store(question["cache"], fcntl.LOCK_EX) as store:
            return {"kept": store.forget(question["run"])}
    with _Store(question["cache"], fcntl.LOCK_SH) as store:
        if question["contents"] is not None:
            changed = store.take(question["contents"], stream)
            if changed:
                return {"changed": changed}
        store.note(question["run"], question["trees"])
        folders = [store.folder(tree) for tree in question["trees"]]
        wanted = [tree for tree, folder in zip(question["trees"], folders, strict=True) if folder is None]
        missing = sorted({digest for tree in wanted for _, _, _, digest, _ in tree["entries"] if digest and not store.has(digest)})
        if not missing:
            folders = [folder or store.build(tree) for tree, folder in zip(question["trees"], folders, strict=True)]
        free = shutil.disk_usage(store.path).free
    if not missing:
        with suppress(BlockingIOError), _Store(question["cache"], fcntl.LOCK_EX | fcntl.LOCK_NB) as store:
            store.tidy()
    return {"folders": folders, "missing": missing, "free": free}


def _remove_run(folder: str) -> None:
    """With what is empty above it then: STATE/agents/NAME/RUN/HOST."""
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        for _ in range(4):
            folder = os.path.dirname(folder)
            os.rmdir(folder)


class _Store:
    """A context. Any number may add to the store at the same time (LOCK_SH), and nobody while one removes from it (LOCK_EX). Raises
    BlockingIOError with LOCK_NB."""

    def __init__(self, path: str, lock: int) -> None:
        self.path = path
        self._kind = lock

    def __enter__(self) -> _Store:
        while not self._lock():
            pass
        for part in _PARTS:
            os.makedirs(os.path.join(self.path, part), mode=0o700, exist_ok=True)
        return self

    def __exit__(self, *details: object) -> None:
        self._file.close()

    def _lock(self) -> bool:
        """False where somebody has removed the store at that moment."""
        os.makedirs(self.path, mode=0o700, exist_ok=True)
        path = os.path.join(self.path, "lock")
        with suppress(FileNotFoundError):
            self._file = open(path, "ab")  # noqa: SIM115 - closed on leaving
            fcntl.flock(self._file, self._kind)
            return os.path.samestat(os.fstat(self._file.fileno()), os.stat(path))
        return False

    def has(self, digest: str) -> bool:
        return os.path.exists(self._content(digest))

    def take(self, contents: list[tuple[str, int]], stream: BinaryIO) -> list[str]:
        """Keep what comes; the digests of what was not what it should be. What cannot be kept is read all the same: the next question
        stands behind it."""
        changed = []
        failure: OSError | None = None
        for digest, size in contents:
            found = hashlib.sha256()
            aside = None
            try:
                if failure is None:
                    aside = tempfile.NamedTemporaryFile(dir=os.path.join(self.path, "contents"), delete=False)  # noqa: SIM115
            except OSError as error:
                failure = error
            for data in _read(stream, size):
                found.update(data)
                try:
                    if aside is not None and failure is None:
                        aside.write(data)
                except OSError as error:
                    failure = error
            if aside is not None:
                failure = self._keep(aside, digest, found.hexdigest() == digest and failure is None) or failure
            if found.hexdigest() != digest:
                changed.append(digest)
        if failure is not None:
            raise failure
        return changed

    def folder(self, tree: dict[str, Any]) -> str | None:
        """A folder that holds the tree already: the launcher's own on a shared file system, or one that was built before."""
        if tree["root"] is not None and _holds(tree["root"], tree["entries"]):
            return str(tree["root"])
        path = self._folder(tree)
        if all(os.path.lexists(os.path.join(path, name)) for name, *_ in tree["entries"]) and os.path.isdir(path):
            os.utime(path)
            return path
        return None

    def build(self, tree: dict[str, Any]) -> str:
        final = self._folder(tree)
        aside = tempfile.mkdtemp(prefix=".new-", dir=os.path.dirname(final))
        for name, _, executable, digest, link in tree["entries"]:
            path = os.path.join(aside, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if link is not None:
                os.symlink(link, path)
            else:
                shutil.copyfile(self._content(digest), path)
                os.utime(self._content(digest))
                os.chmod(path, 0o700 if executable else 0o600)
        try:
            os.rename(aside, final)
        except OSError:
            # Somebody else was quicker, or somebody removed files of it: put those back, one at a time.
            for name, *_ in tree["entries"]:
                if not os.path.lexists(os.path.join(final, name)):
                    os.makedirs(os.path.dirname(os.path.join(final, name)), exist_ok=True)
                    os.rename(os.path.join(aside, name), os.path.join(final, name))
            shutil.rmtree(aside, ignore_errors=True)
        return final

    def note(self, run: str, trees: list[dict[str, Any]]) -> None:
        """That the run uses these, from now on."""
        with open(os.path.join(self.path, "runs", run), "w", encoding="utf-8") as file:
            json.dump([os.path.basename(self._folder(tree)) for tree in trees], file)

    def forget(self, run: str) -> list[str]:
        """And remove what no other run uses, and the store when nothing is left in it; what could not be removed."""
        mine = self._noted(run)
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self.path, "runs", run))
        others = {name for other in os.listdir(os.path.join(self.path, "runs")) for name in self._noted(other)}
        kept = [folder for name in sorted(mine - others) if os.path.isdir(folder := os.path.join(self.path, "folders", name))]
        end = time.monotonic() + _ENDING_S
        while (kept := self._remove(kept)) and time.monotonic() < end:
            time.sleep(_AGAIN_S)
        if not os.listdir(os.path.join(self.path, "folders")) and not os.listdir(os.path.join(self.path, "runs")):
            shutil.rmtree(self.path, ignore_errors=True)
        return kept

    def tidy(self) -> None:
        old = time.time() - _KEPT
        self._remove([folder for folder in _inside(os.path.join(self.path, "folders")) if _used(folder) < old])
        for path in [*_inside(os.path.join(self.path, "contents")), *_inside(os.path.join(self.path, "runs"))]:
            if _used(path) < old:
                os.unlink(path)

    def _remove(self, folders: list[str]) -> list[str]:
        """With their contents; those that a process works in, or was started from, are returned."""
        places = _places_of_processes() if folders else set()
        busy = [folder for folder in folders if any(place == folder or place.startswith(folder + "/") for place in places)]
        for folder in set(folders).difference(busy):
            for path in _files(folder):
                with suppress(OSError):
                    os.unlink(self._content(_digest(path)))
            shutil.rmtree(folder, ignore_errors=True)
        return busy

    def _noted(self, run: str) -> set[str]:
        with suppress(FileNotFoundError, ValueError), open(os.path.join(self.path, "runs", run), encoding="utf-8") as file:
            return set(json.load(file))
        return set()

    def _keep(self, aside: Any, digest: str, good: bool) -> OSError | None:
        try:
            with aside:
                aside.flush()
            if good:
                os.rename(aside.name, self._content(digest))
            else:
                os.unlink(aside.name)
        except OSError as error:
            os.unlink(aside.name)
            return error
        return None

    def _content(self, digest: str) -> str:
        return os.path.join(self.path, "contents", digest)

    def _folder(self, tree: dict[str, Any]) -> str:
        return os.path.join(self.path, "folders", f"{tree['name']}-{tree['digest'][:16]}")


def _read(stream: BinaryIO, size: int) -> Iterator[bytes]:
    while size > 0:
        data = stream.read(min(size, _CHUNK))
        if not data:
            raise EOFError
        size -= len(data)
        yield data


def _holds(root: str, entries: list[Any]) -> bool:
    """Whether the folder is there with the very same files; sizes first, which is quick."""
    if not os.path.isdir(root):
        return False
    for name, size, _, _, link in entries:
        path = os.path.join(root, name)
        try:
            if (os.readlink(path) != link) if link is not None else (os.path.getsize(path) != size):
                return False
        except OSError:
            return False
    return all(_digest(os.path.join(root, name)) == digest for name, _, _, digest, _ in entries if digest is not None)


def _digest(path: str) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while data := file.read(_CHUNK):
            found.update(data)
    return found.hexdigest()


def _used(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return time.time()


def _inside(folder: str) -> list[str]:
    return [os.path.join(folder, name) for name in os.listdir(folder)]


def _files(folder: str) -> Iterator[str]:
    """Regular ones, at any depth."""
    for where, _, names in os.walk(folder):
        yield from (path for path in (os.path.join(where, name) for name in names) if stat.S_ISREG(os.lstat(path).st_mode))


def _places_of_processes() -> set[str]:
    """The folder in which each process of ours works, and every path on its command line."""
    found = set()
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            with suppress(OSError):
                found.add(os.readlink(f"/proc/{pid}/cwd"))
                with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="surrogateescape") as file:
                    found.update(word for word in file.read().split("\0") if word.startswith("/"))
    return found
