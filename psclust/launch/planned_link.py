"""The links with which `psclust plan` counts the seconds of a step."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable

from psclust.placement.link_speed import LinkSpeed
from psclust.rundir.links_file import Link, slowest_link

_DEFAULT_GBIT = 1.0


def planned_link(
    gbit: float | None, hosts: Collection[str], known: Iterable[Link], now: float
) -> tuple[LinkSpeed, str | None]:
    """As the user says, by `gbit`; else the slowest of the `known` links between the hosts; else
    one of 1 Gbit/s. The second value says where a measured speed comes from. now: seconds since
    1970."""
    slowest = None if gbit is not None else slowest_link(known, hosts, now)
    if slowest is None:
        return LinkSpeed.nominal(_DEFAULT_GBIT if gbit is None else gbit), None
    speed = LinkSpeed.measured(slowest.gbit)
    day = time.strftime("%Y-%m-%d", time.localtime(slowest.when))
    where = " and ".join(slowest.hosts)
    return speed, (
        f"links as doctor measured them on {day}: {speed.text}, the slowest between {where}"
    )
