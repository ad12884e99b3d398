"""The checks that one round trip to each host allows; `up` makes them before it starts anything.
Pure."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import psclust
from psclust.reach.doctor.finding import Finding, Verdict
from psclust.reach.python.host_facts import HostFacts

TENSORFLOW = "2.15"  # the oldest that psclust is made for
_LITTLE_DISK = 1_000_000_000  # bytes
_LITTLE_MEMORY = 500_000_000
_SKEW_S = 2.0  # by which times in logs may disagree before it is worth a note


def quick(facts: Iterable[HostFacts]) -> list[Finding]:
    """All quick checks of all hosts."""
    hosts = list(facts)
    usual = _Usual(
        _most_common(host.version for host in hosts),
        _most_common(host.tensorflow for host in hosts if host.tensorflow),
    )
    return [
        Finding.of(host.host, name, verdict)
        for host in hosts
        for name, check in QUICK_CHECKS.items()
        for verdict in check(host, usual)
    ]


@dataclass(frozen=True, slots=True)
class _Usual:
    """The versions that most hosts have; None if no host has one."""

    python: str | None
    tensorflow: str | None


def _python(host: HostFacts, usual: _Usual) -> Iterator[Verdict]:
    if usual.python is not None and _numbers(host.version)[:2] != _numbers(usual.python)[:2]:
        remedy = "Install the same one everywhere, or name one that all have under `python:`."
        yield Verdict(
            "problem",
            f"Python {host.version}, elsewhere {usual.python} ({host.executable})",
            remedy,
        )
    else:
        yield Verdict("ok", f"{host.version} ({host.executable})")


def _tensorflow(host: HostFacts, usual: _Usual) -> Iterator[Verdict]:
    install = (
        f"{host.executable} -m pip install 'tensorflow=={usual.tensorflow}'"
        if usual.tensorflow
        else f"{host.executable} -m pip install tensorflow"
    )
    if host.tensorflow is None:
        yield Verdict("problem", f"no TensorFlow for {host.executable}", f"Run there: {install}")
    elif host.tensorflow != usual.tensorflow:
        text = f"TensorFlow {host.tensorflow}, elsewhere {usual.tensorflow}"
        yield Verdict("problem", text, f"Versions must be equal. Run there: {install}")
    elif () < _numbers(host.tensorflow) < _numbers(TENSORFLOW):
        yield Verdict(
            "note",
            f"TensorFlow {host.tensorflow}; psclust is made for {TENSORFLOW} and later, and was "
            "never tried with it",
        )
    else:
        yield Verdict("ok", host.tensorflow)


def _psclust(host: HostFacts, usual: _Usual) -> Iterator[Verdict]:
    if host.psclust is not None:
        yield Verdict("ok", psclust.__version__)
    else:
        other = f", which is not the {host.psclust_version} there" if host.psclust_version else ""
        yield Verdict("ok", f"{psclust.__version__} is shipped{other}")


def _packages(host: HostFacts, usual: _Usual) -> Iterator[Verdict]:
    if host.missing:
        remedy = f"Run there: {host.executable} -m pip install {shlex.join(host.missing)}"
        yield Verdict("problem", f"{host.executable} lacks {', '.join(host.missing)}", remedy)


def _disk(host: HostFacts, usual: _Usual) -> Iterator[Verdict]:
    for folder, free in host.disks.items():
        text = f"{_size(free)} free in {folder}"
        if free < _LITTLE_DISK:
            needed_by = (
                "what is sent there needs" if folder == host.cache else "logs and checkpoints need"
            )
            yield Verdict("note", text, f"Make room: {needed_by} it.")
        else:
            yield Verdict("ok", text)


def _memory(host: HostFacts, usual: _Usual) -> Iterator[Verdict]:
    if host.memory_free is not None and host.memory is not None:
        text = f"{_size(host.memory_free)} free of {_size(host.memory)}"
        yield (
            Verdict("note", text, "A task that gets none is killed.")
            if host.memory_free < _LITTLE_MEMORY
            else Verdict("ok", text)
        )


def _clock(host: HostFacts, usual: _Usual) -> Iterator[Verdict]:
    off = max(0.0, abs(host.clock) - host.clock_error)
    if off < _SKEW_S:
        yield Verdict("ok", "right")
    else:
        text = f"{off:.0f} s {'ahead of' if host.clock > 0 else 'behind'} this machine's"
        yield Verdict("note", text, "Set it: chronyd or timedatectl set-ntp true.")


QUICK_CHECKS: Mapping[str, Callable[[HostFacts, _Usual], Iterator[Verdict]]] = {
    "python": _python,
    "tensorflow": _tensorflow,
    "psclust": _psclust,
    "packages": _packages,
    "disk": _disk,
    "memory": _memory,
    "clock": _clock,
}


def _most_common(versions: Iterable[str]) -> str | None:
    """Of several, the highest."""
    counts = Counter(versions)
    return max(counts, key=lambda version: (counts[version], _numbers(version)), default=None)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def _size(count: int) -> str:
    return f"{count / 1e9:.0f} GB" if count >= 10e9 else f"{count / 1e9:.1f} GB"
