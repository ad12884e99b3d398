"""Who may connect to the servers of a task, beside processes of its user on its own host."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from psclust.spec.cluster import LOCALHOST
from psclust.spec.key_types import EVERYBODY


def admitted(
    host: str, addresses: Mapping[str, Collection[str]], others: Sequence[str]
) -> tuple[str, ...]:
    """Addresses and networks. `addresses`: of every host, by name, spare ones included. One that
    the task's own host has, too, such as that of a bridge for containers, is left out, and so are
    loopback ones: users are told apart there. `others`: besides the hosts."""
    if EVERYBODY in others:
        return (EVERYBODY,)
    own = {LOCALHOST.name, *addresses.get(host, ())}
    elsewhere = (
        address
        for each in addresses.values()
        for address in each
        if address not in own and not address.startswith("127.")
    )
    return tuple(dict.fromkeys([*elsewhere, *others]))
