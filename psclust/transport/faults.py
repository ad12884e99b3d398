"""Failures made on purpose on this machine, for `psclust inject`. Each ends by itself: a process is
continued, and a link healed, by a shell that outlives the caller; if that shell is killed with
everything else of the run, the kernel heals the link at the same time."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import Literal

from psclust.errors import UsageError

FaultKind = Literal["kill", "freeze", "slow", "cut"]
ON_LINKS, ON_PROCESSES = ("slow", "cut"), ("kill", "freeze")

_LONGEST_S = 1_000_000
_SOON_S = 0.2  # the caller's answer leaves first: the fault may hit the caller itself
_TABLE = "inet psclust_inject"


@dataclass(frozen=True, slots=True)
class Fault:
    """pid: of the process it hits, 0 for the process that makes the fault, None for the links of
    this host. for_s: how long it lasts, unless it kills. rate: what a slow link carries in each
    direction, in kB/s. `heal` ends a freeze, a slow or a cut link early."""

    kind: FaultKind
    pid: int | None = None
    for_s: float = 10.0
    rate: int = 1000


def make_fault(fault: Fault) -> None:
    """Begin it within a moment. Raises UsageError where this user may not, and for a fault that
    there is not."""
    _require_possible(fault)
    if fault.pid is not None:
        pid = fault.pid or os.getpid()
        _require_process(pid)
        steps = {
            "kill": f"kill -KILL {pid}",
            "freeze": f"kill -STOP {pid}; sleep {fault.for_s:g}; kill -CONT {pid}",
        }
        _start(steps[fault.kind])
        return
    nft, rules = _find_nft(), _rules(fault)
    tried = subprocess.run([nft, "--check", rules], capture_output=True, text=True)
    if tried.returncode:
        why = (tried.stderr.splitlines() or ["no reason given"])[0]
        raise UsageError(f"slow and cut links need root on {os.uname().nodename}: nft: {why}.")
    _start(f'{nft} "$1"; sleep {fault.for_s:g}; {nft} delete table {_TABLE}', rules)


def _require_possible(fault: Fault) -> None:
    kinds = ON_LINKS if fault.pid is None else ON_PROCESSES
    if fault.kind not in kinds:
        what = "links" if fault.pid is None else "a process"
        raise UsageError(f"{fault.kind!r} is no fault of {what}: {' or '.join(kinds)}.")
    if not 0 <= fault.for_s <= _LONGEST_S or fault.rate < 0:
        raise UsageError(
            f"a fault lasts from 0 to {_LONGEST_S} s, and carries 0 kB/s or more; found "
            f"{fault.for_s} s, {fault.rate} kB/s."
        )


def _rules(fault: Fault) -> str:
    """Packets match while an address of their other end is in a set, and the kernel takes all
    addresses out of the sets after `for_s`."""
    limit = f"limit rate over {fault.rate} kbytes/second burst 128 kbytes "
    drop = f"{limit if fault.kind == 'slow' else ''}drop"
    lasts = f"timeout {max(1, round(fault.for_s * 1000))}ms"
    sets = [
        f"set {name} {{ type {kind}; flags interval, timeout; elements = {{ {all_} {lasts} }}; }}"
        for name, kind, all_ in (
            ("others4", "ipv4_addr", "0.0.0.0/0"),
            ("others6", "ipv6_addr", "::/0"),
        )
    ]
    chains = [
        f"chain {hook} {{ type filter hook {hook} priority 0; {side}ifname lo accept; "
        f"ip {end}addr @others4 {drop}; ip6 {end}addr @others6 {drop}; }}"
        for hook, side, end in (("input", "i", "s"), ("output", "o", "d"))
    ]
    table = "\n".join([f"table {_TABLE} {{", *sets, *chains, "}"])
    return f"add table {_TABLE}; delete table {_TABLE}; {table}"


def _require_process(pid: int) -> None:
    try:
        os.kill(pid, 0)
    except OverflowError:
        raise UsageError(f"process {pid}: No such process.") from None
    except OSError as error:
        raise UsageError(f"process {pid}: {error.strerror}.") from None


def _find_nft() -> str:
    nft = shutil.which("nft", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if nft is None:
        raise UsageError("slow and cut links need nftables there: apt-get install nftables.")
    return nft


def _start(script: str, *arguments: str) -> None:
    subprocess.Popen(
        ["sh", "-c", f"sleep {_SOON_S}; {script}", "psclust-inject", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
