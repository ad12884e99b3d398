"""A host's store of what was sent to it: contents by their digest, and folders made of them.

A folder is built beside and renamed when it is whole, so that nobody sees half of one, and it is never changed afterwards, so that a run
that uses it is not disturbed by the next one's changes. What has not been used for a month goes, unless a process works in it."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from typing import Any, BinaryIO

_CHUNK = 1 << 20
_KEPT = 30 * 86400.0  # seconds


def answer(question: dict[str, Any], stream: BinaryIO) -> dict[str, Any]:
    """`question`: `cache`, the store's folder; `trees`, each with `name`, `digest`, `root` and `entries`; and `contents`, digest and size
    of each that follows in the stream, or None to be told what is missing. The folder of a tree is None until nothing is."""
    store = _Store(question["cache"])
    if question["contents"] is not None:
        changed = store.take(question["contents"], stream)
        if changed:
            return {"changed": changed}
    folders = [store.folder(tree) for tree in question["trees"]]
    wanted = [tree for tree, folder in zip(question["trees"], folders, strict=True) if folder is None]
    missing = sorted({digest for tree in wanted for _, _, _, digest, _ in tree["entries"] if digest and not store.has(digest)})
    if not missing:
        folders = [folder or store.build(tree) for tree, folder in zip(question["trees"], folders, strict=True)]
        store.tidy()
    return {"folders": folders, "missing": missing, "free": shutil.disk_usage(store.path).free}


class _Store:
    def __init__(self, path: str) -> None:
        self.path = path
        for name in ("contents", "folders"):
            os.makedirs(os.path.join(path, name), mode=0o700, exist_ok=True)

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

    def tidy(self) -> None:
        old = time.time() - _KEPT
        busy = _working_folders()
        for path in _inside(os.path.join(self.path, "folders")):
            if _used(path) < old and not any(place == path or place.startswith(path + "/") for place in busy):
                shutil.rmtree(path, ignore_errors=True)
        for path in _inside(os.path.join(self.path, "contents")):
            if _used(path) < old:
                os.unlink(path)

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


def _working_folders() -> list[str]:
    """Of every process of ours."""
    found = []
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                found.append(os.readlink(f"/proc/{pid}/cwd"))
            except OSError:
                continue
    return found
