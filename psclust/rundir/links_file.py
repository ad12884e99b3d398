"""The links between hosts as `psclust doctor` measured them, kept for `psclust plan`: one small
file beside the runs."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from psclust.rundir.atomic_file import write_atomically
from psclust.spec.typed_json import converter, parse_json

MOST_LINKS = 1000  # the latest
OLD_S = 30 * 86400.0  # after which a measured speed counts no more
_NAME = "_links.json"  # names of clusters begin with a letter or digit


@dataclass(frozen=True, slots=True)
class Link:
    """hosts: both ends. gbit: what TCP moved, in Gbit/s. round_trip_s: of a byte; when: seconds
    since 1970."""

    hosts: tuple[str, str]
    gbit: float
    round_trip_s: float
    when: float


def read_links(root: Path) -> list[Link]:
    """root: the folder of all runs. Empty if there is no file, or one that psclust did not
    write."""
    try:
        text = (root / _NAME).read_text(encoding="utf-8")
        return list(converter(tuple[Link, ...])(parse_json(text)))
    except (OSError, ValueError):
        return []


def keep_links(root: Path, links: Iterable[Link]) -> None:
    """Add `links` to the file; a link replaces an older one of the same hosts. Raises OSError."""
    known = {frozenset(link.hosts): link for link in read_links(root)}
    known |= {frozenset(link.hosts): link for link in links}
    latest = sorted(known.values(), key=lambda link: link.when)[-MOST_LINKS:]
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomically(root / _NAME, json.dumps([asdict(link) for link in latest]))


def slowest_link(links: Iterable[Link], hosts: Collection[str], now: float) -> Link | None:
    """Of those between two of `hosts` that were measured less than OLD_S before `now`."""
    known = [link for link in links if set(link.hosts) <= set(hosts) and now - link.when < OLD_S]
    return min(known, key=lambda link: link.gbit, default=None)
