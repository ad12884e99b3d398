"""Homes that differ from the test hosts' own in one thing: how a user's `~/.ssh` may be."""

from __future__ import annotations

import shutil
from pathlib import Path

from beds.hosts import BedHost, HostBed


def home_like(
    bed: HostBed, folder: Path, *, before: str = "", after: str = "", known_hosts: str | None = None
) -> Path:
    """A copy of the bed's home, with text before and after its ssh configuration, or other known
    hosts."""
    shutil.copytree(bed.home, folder)
    config = folder / ".ssh" / "config"
    text = config.read_text().replace(str(bed.home), str(folder))
    config.write_text(f"{before}\n{text}\n{after}\n")
    if known_hosts is not None:
        (folder / ".ssh" / "known_hosts").write_text(known_hosts)
    return folder


def close_to(host: BedHost, address: str) -> None:
    """No packet from `address` is let in any more; others still are."""
    host.run("nft", "add table inet closed")
    host.run("nft", "add chain inet closed in { type filter hook input priority 0; }")
    host.run("nft", f"add rule inet closed in ip saddr {address} drop")


def open_to_all(host: BedHost) -> None:
    host.run("nft", "delete table inet closed")


def launcher_address(bed: HostBed) -> str:
    """Ours, on the hosts' network."""
    return bed[0].address.rpartition(".")[0] + ".254"


def log_ins(host: BedHost) -> int:
    """How many its sshd has let in."""
    return host.log.read_text(errors="replace").count("Accepted publickey")
