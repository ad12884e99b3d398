"""Sends a program's folder to the hosts, and psclust where it is not installed: only what a host
does not have yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psclust.errors import HostError, StartError
from psclust.reach.fan_out import on_each
from psclust.reach.python.host_facts import HostFacts
from psclust.reach.python.host_python import HostPython
from psclust.reach.python.host_pythons import HostPythons
from psclust.reach.python.on_host.store import Entry, Tree
from psclust.reach.ship.shipped_files import megabytes, package_tree

_CHUNK = 1 << 18
_TIMEOUT_S = 600.0  # for a host to take in what it was sent


@dataclass(frozen=True, slots=True)
class Shipped:
    """The shipped folders of a host. program: the program's folder, to work in and to import from;
    None if none was to be sent. psclust: the folder to put on PYTHONPATH; None if psclust is
    installed. files, size: how many files were sent, and their bytes."""

    program: str | None
    psclust: str | None
    files: int
    size: int


def ship(
    pythons: HostPythons, facts: Mapping[str, HostFacts], program: Tree | None, run: str
) -> dict[str, Shipped]:
    """Send `program` to every host of `facts` for a run (NAME.ID), until that is purged (`unship`).
    Folders appear complete or not at all, and never change afterwards: other clusters use the same
    ones. Raises StartError with a line for each host on which it failed."""
    package = package_tree() if any(each.psclust is None for each in facts.values()) else None
    return on_each(list(facts), lambda host: _ship(pythons, facts[host], program, package, run))


def _ship(
    pythons: HostPythons, facts: HostFacts, program: Tree | None, package: Tree | None, run: str
) -> Shipped:
    wanted: dict[str, Tree] = {} if program is None else {"program": program}
    if package is not None and facts.psclust is None:
        wanted["psclust"] = package
    if not wanted:
        return Shipped(None, facts.psclust or None, 0, 0)
    folders, sent = _place(facts, pythons.on(facts.host), list(wanted.values()), run)
    found = dict(zip(wanted, folders, strict=True))
    return Shipped(
        program=found.get("program"),
        psclust=found.get("psclust", facts.psclust or None),
        files=len(sent),
        size=sum(entry.size for entry in sent),
    )


def _place(
    facts: HostFacts, python: HostPython, trees: Sequence[Tree], run: str
) -> tuple[list[str], list[Entry]]:
    """The folders on the host, and the files that were sent for them."""
    contents = {
        entry.digest: entry for tree in trees for entry in tree.entries if entry.digest is not None
    }
    question = {
        "work": "take",
        "cache": facts.cache,
        "run": _on(run, facts.host),
        "trees": [_as_json(tree) for tree in trees],
    }
    reply = python.ask("store", {**question, "contents": []}, timeout_s=_TIMEOUT_S)
    sent: dict[str | None, Entry] = {}
    while reply["missing"]:  # more than once if another purge removes contents in between
        missing = [contents[digest] for digest in reply["missing"]]
        needed = sum(entry.size for entry in missing) + sum(
            entry.size for tree in trees for entry in tree.entries
        )
        if needed > reply["free"]:
            room = f"{megabytes(needed)} are needed and {megabytes(reply['free'])} are free"
            raise HostError(
                f"{facts.host}: {facts.cache}: {room}. Make room, or send less (.gitignore)."
            )
        listed = [(entry.digest, entry.size) for entry in missing]
        reply = python.ask(
            "store", {**question, "contents": listed}, _read(missing), timeout_s=_TIMEOUT_S
        )
        if "changed" in reply:
            names = ", ".join(contents[digest].source for digest in reply["changed"][:3])
            raise HostError(
                f"{facts.host}: {names} changed while being sent. "
                "Start again when no process writes there, or list it in .gitignore."
            )
        sent |= dict(zip((digest for digest, _ in listed), missing, strict=True))
    return reply["folders"], list(sent.values())


def unship(python: HostPython, host: str, cache: str, runs: Mapping[str, str]) -> list[str]:
    """Remove each run (NAME.ID) and its own folder from one host, with what was shipped for no
    other run; returns the folders that stay because a process uses them."""
    asked = [
        {"work": "purge", "cache": cache, "run": _on(run, host), "folder": folder}
        for run, folder in runs.items()
    ]
    return [
        folder
        for question in asked
        for folder in python.ask("store", question, timeout_s=_TIMEOUT_S)["kept"]
    ]


def _on(run: str, host: str) -> str:
    """Hosts may share a home."""
    return f"{run}.{host}"


def _as_json(tree: Tree) -> dict[str, Any]:
    return tree._asdict() | {"entries": [{**each._asdict(), "source": ""} for each in tree.entries]}


def _read(entries: Sequence[Entry]) -> Iterator[bytes]:
    """Their bytes, exactly as many as announced: a file that has become shorter is padded, and the
    host refuses it by its digest."""
    for entry in entries:
        left = entry.size
        try:
            with open(entry.source, "rb") as file:
                while left and (data := file.read(min(left, _CHUNK))):
                    left -= len(data)
                    yield data
        except OSError as error:
            raise StartError(
                f"ship: {entry.source}: {error.strerror}. Start again when no process writes there."
            ) from None
        while left:
            filling = bytes(min(left, _CHUNK))
            left -= len(filling)
            yield filling
